//! The headline and the map never claim what the intervals do not give: random verdicts.

use crate::fixtures;
use duality_lab::judge::alternatives::Alternative;
use duality_lab::judge::summary::Summary;
use duality_lab::judge::verdict::{Cause, Evidence, Finding, Metric, Standing, Told, Verdict};
use duality_lab::record::Records;
use duality_lab::tell::recommendation::headline::{MOST_WORDS, words};
use duality_lab::tell::recommendation::recommend;
use proptest::prelude::*;

const NAMES: [&str; 6] = ["threads", "fork", "pool", "uthreads", "epoll", "uring"];
const LOADS: [usize; 3] = [1, 100, 1000];
const MARGIN: f64 = 0.05;

/// What an interval from `low` to `high` says of a subject, of which work may have moved.
fn told(low: f64, high: f64, moved: bool) -> Told {
    match (low > 0.0, high < 0.0) {
        (true, _) if moved => Told::WorkMoved,
        (true, _) => Told::Worse,
        (_, true) => Told::Better,
        _ if low >= 1.0 / (1.0 + MARGIN) - 1.0 && high <= MARGIN => Told::Level,
        _ => Told::Unknown,
    }
}

fn standing(name: &str, behind: f64, half: f64, moved: bool) -> Standing {
    let low = (1.0 + behind) / (1.0 + half) - 1.0;
    let high = (1.0 + behind) * (1.0 + half) - 1.0;
    let told = if behind == 0.0 { Told::Level } else { told(low, high, moved) };
    Standing {
        subject: name.to_owned(),
        value: 10.0 * (1.0 + behind),
        behind,
        low,
        high,
        level: told != Told::Worse,
        told,
        server_cpu_us: 10.0,
        client_cpu_us: 10.0,
        rate: 1e4,
        rate_low: 1e4,
        rate_high: 1e4,
        at_least: false,
        work_moved: told == Told::WorkMoved,
        out: None,
    }
}

/// A verdict of random differences with random precision, beside a subject that runs today.
fn verdict(
    load: usize,
    raw: &[(f64, f64, bool)],
    metric: Metric,
    current: Option<usize>,
) -> Verdict {
    let least = raw.iter().map(|one| one.0).fold(f64::INFINITY, f64::min);
    let behind = |at: usize| (1.0 + raw[at].0) / (1.0 + least) - 1.0;
    let mut standings: Vec<Standing> =
        (0..raw.len()).map(|at| standing(NAMES[at], behind(at), raw[at].1, raw[at].2)).collect();
    standings.sort_by(|one, other| one.behind.total_cmp(&other.behind));
    let level: Vec<String> =
        standings.iter().filter(|one| one.level).map(|one| one.subject.clone()).collect();
    let critical = raw.iter().map(|one| one.1).fold(0.0, f64::max);
    let finding = match level.as_slice() {
        [subject] => Finding::Best { subject: subject.clone() },
        all if all.len() == standings.len() => Finding::NoDifference,
        _ => Finding::Level { subjects: level },
    };
    let alternative = |at: usize, today: usize| {
        let difference = (1.0 + raw[at].0) / (1.0 + raw[today].0) - 1.0;
        let low = (1.0 + difference) / (1.0 + raw[at].1) - 1.0;
        let high = (1.0 + difference) * (1.0 + raw[at].1) - 1.0;
        let change = told(low, high, raw[at].2);
        Alternative { subject: NAMES[at].to_owned(), change, difference, low, high }
    };
    let alternatives = current.map_or(Vec::new(), |today| {
        (0..raw.len()).filter(|at| *at != today).map(|at| alternative(at, today)).collect()
    });
    Verdict {
        concurrency: load,
        counted: duality_lab::format::Counted::Connections,
        metric,
        network: None,
        finding,
        standings,
        others: Vec::new(),
        alternatives,
        critical: Some(critical),
        imprecise: (critical > 0.15).then_some(Cause::Coarse),
        evidence: Evidence::default(),
        control: None,
    }
}

/// A summary of which the verdicts are made up.
fn summary(
    verdicts: Vec<Verdict>,
    current: Option<usize>,
) -> (Summary, duality_lab::record::Heading) {
    let mut heading = fixtures::heading(&NAMES, &LOADS, 3);
    heading.current = current.map(|at| NAMES[at].to_owned());
    let mut summary = Summary::of(&heading, &Records::default());
    summary.done = summary.planned;
    summary.verdicts = verdicts;
    (summary, heading)
}

/// The number before `%` or `times` after `words`.
fn bound(text: &str, words: &str) -> Option<f64> {
    let rest = text.split_once(words)?.1;
    let number: f64 = rest.split_whitespace().next()?.parse().ok()?;
    let is_share = rest.split_whitespace().nth(1)?.starts_with('%');
    Some(if is_share { number / 100.0 } else { number - 1.0 })
}

fn raws() -> impl Strategy<Value = Vec<Vec<(f64, f64, bool)>>> {
    let one = (0.0..3.0f64, prop_oneof![0.001..0.1f64, 0.01..1.0f64], prop::bool::weighted(0.1));
    prop::collection::vec(prop::collection::vec(one, NAMES.len()), LOADS.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_choice_claims_only_what_is_sure(raws in raws(), by_rate in any::<bool>()) {
        let metric = if by_rate { Metric::Rate } else { Metric::ServerCpu };
        let of = |(raw, load): (&Vec<_>, &usize)| verdict(*load, raw, metric, None);
        let (summary, heading) = summary(raws.iter().zip(&LOADS).map(of).collect(), None);
        let said = recommend(&summary, &heading, &Records::default());
        let text = &said.headline;
        prop_assert!(words(text) <= MOST_WORDS, "{text}");
        prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let all = || summary.verdicts.iter();
        let is_led = |verdict: &Verdict, name: &str| {
            verdict.standings.iter().any(|one| one.subject == name && one.level)
        };
        // An unbeaten or best choice leads at each load that the sentence has.
        for (words, is_alone) in [(" is unbeaten", false), (" is best", true)] {
            let Some((before, after)) = text.split_once(words) else { continue };
            let name = before.rsplit(' ').next().unwrap();
            if !after.starts_with('.') {
                continue;
            }
            prop_assert!(all().all(|verdict| is_led(verdict, name)), "{text}");
            let alone = |one: &Standing| one.subject == name || one.told == Told::Worse;
            prop_assert!(!is_alone || all().all(|one| one.standings.iter().all(alone)), "{text}");
        }
        // A family that costs so much is so much worse for sure.
        let families = [
            ("Kernel threads", vec!["threads"]), ("Processes", vec!["fork"]),
            ("Pools and stages", vec!["pool"]), ("User-level threads", vec!["uthreads"]),
            ("Event loops", vec!["epoll", "uring"]),
        ];
        for (family, members) in families {
            let Some((_, claim)) = text.split_once(family) else { continue };
            let least = bound(claim, "at least ").unwrap();
            let at = |verdict: &&Verdict| {
                let load = duality_lab::format::grouped(verdict.concurrency as f64);
                match (claim.contains(" on."), claim.contains(" up to "), claim.contains(" at ")) {
                    (true, ..) => verdict.concurrency >= 100,
                    (_, true, _) => verdict.concurrency <= 100,
                    // `at least` is no place.
                    _ if claim.matches(" at ").count() > 1 => claim
                        .rsplit_once(" at ").unwrap().1
                        .split([' ', '.']).any(|word| word.trim_end_matches(',') == load),
                    _ => true,
                }
            };
            for one in all().filter(at).flat_map(|one| &one.standings) {
                let low = if by_rate { 1.0 - 1.0 / (1.0 + one.low) } else { one.low };
                let is_member = members.contains(&one.subject.as_str());
                prop_assert!(!is_member || low >= least - 1e-6, "{one:?}: {text}");
            }
        }
    }

    #[test]
    fn a_change_claims_only_what_is_sure(raws in raws(), today in 0..NAMES.len()) {
        let of = |(raw, load): (&Vec<_>, &usize)| {
            verdict(*load, raw, Metric::ServerCpu, Some(today))
        };
        let verdicts = raws.iter().zip(&LOADS).map(of).collect();
        let (summary, heading) = summary(verdicts, Some(today));
        let said = recommend(&summary, &heading, &Records::default());
        let text = &said.headline;
        prop_assert!(words(text) <= MOST_WORDS, "{text}");
        let all = || summary.verdicts.iter().flat_map(|one| &one.alternatives);
        if text.starts_with("No: keep") {
            prop_assert!(all().all(|one| one.change != Told::Better), "{text}");
            let most = bound(text, "gains more than ").unwrap_or(0.0);
            prop_assert!(all().all(|one| one.low >= -most - 1e-6), "{text}");
        }
        if let Some(least) = bound(text, "saves at least ") {
            let name = text.split_once(" to ").unwrap().1.split([' ', '.']).next().unwrap();
            let best = all().filter(|one| one.subject == name).map(|one| one.high);
            prop_assert!(best.fold(f64::INFINITY, f64::min) <= -least + 1e-6, "{text}");
        }
        // What is worse for sure everywhere is a no.
        if all().all(|one| one.change == Told::Worse) {
            prop_assert!(text.starts_with("No: keep"), "{text}");
        }
    }
}
