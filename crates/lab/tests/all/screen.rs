//! The first screen of made-up experiments, one for each kind of outcome. Each is kept as it is
//! shown at 80 columns; at 40, 60 and 200 columns it fits, too. After a change, read each aloud: is
//! it true, is it one thing, what would you do now? `DUALITY_BLESS=1` writes the screens anew.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use duality_lab::judge::verdict::Finding;
use duality_lab::measure::peers::ReadyMade;
use duality_lab::record::{Build, Builds, Built, Constraints, Measured, Outcome, Ways, kept_slo};
use duality_lab::tell::answer::Answer;
use duality_lab::tell::recommendation::headline::{MOST_WORDS, words};

use crate::fixtures;
use crate::trials::{Shape, Trial, busy, clear, trial};

/// The screen of a trial, without its styles.
fn screen(trial: &Trial, width: usize) -> String {
    rendered(&Answer::of(&trial.heading, &trial.records), width)
}

fn rendered(answer: &Answer<'_>, width: usize) -> String {
    let more = "duality report out --tables";
    let styled = answer.render_screen(Path::new("out/report.html"), more, width);
    anstream::adapter::strip_str(&styled).to_string()
}

/// A cost for each name, the same at each load; the rest as `threads`.
fn costs(of: &'static [(&'static str, f64)]) -> impl Fn(&str, usize) -> Shape {
    |name, _| busy(of.iter().find(|(known, _)| *known == name).map_or(15.0, |(_, cost)| *cost))
}

/// Changes each window of a subject.
fn windows(trial: &mut Trial, name: &str, change: impl Fn(&mut Measured)) {
    for cell in trial.records.cells.iter_mut().filter(|cell| cell.subject == name) {
        if let Outcome::Measured(measured) = &mut cell.outcome {
            change(measured);
        }
    }
}

/// Five names of five families.
const FAMILIES: [&str; 5] = ["threads", "fork", "pool", "uthreads", "epoll"];
const FOUR: [usize; 4] = [1, 10, 100, 1000];

const SIXTEEN: [&str; 16] = [
    "iterative",
    "fork",
    "prefork",
    "threads",
    "pool",
    "uthreads",
    "select",
    "poll",
    "epoll",
    "uring",
    "workpool-fifo",
    "workpool-priority",
    "workpool-serial",
    "staged",
    "gcd",
    "handwritten",
];

/// The outcomes in which one is best, or some are.
fn choices() -> Vec<(&'static str, Trial)> {
    let loops = ["select", "poll", "epoll", "uring", "threads", "fork"];
    let crossing = |below: usize| {
        trial(&FAMILIES, &FOUR, move |name, load| match (name, load < below) {
            ("threads", true) => busy(11.0),
            ("epoll", false) => busy(11.0),
            _ => busy(16.0),
        })
    };
    vec![
        ("one is best at one load", trial(&["threads", "epoll"], &[100], clear)),
        ("one is best at each load", trial(&FAMILIES, &FOUR, clear)),
        ("one is best, and a family is far behind", {
            trial(&FAMILIES, &FOUR, costs(&[("epoll", 10.0), ("threads", 25.0), ("fork", 90.0)]))
        }),
        ("event loops are not told apart, others are worse", {
            trial(&loops, &FOUR, |name, _| {
                busy(if ["threads", "fork"].contains(&name) { 22.0 } else { 12.0 })
            })
        }),
        ("level within the margin", {
            let close = costs(&[("epoll", 12.0), ("uring", 12.0), ("threads", 20.0)]);
            Trial::new(&["epoll", "uring", "threads"], &[10, 100], 4, 40, 0.01, 1, close)
        }),
        ("a set of several families, too noisy for one", {
            let near =
                costs(&[("epoll", 12.0), ("uthreads", 12.5), ("pool", 13.0), ("fork", 60.0)]);
            Trial::new(&FAMILIES, &[10, 100], 3, 7, 0.16, 3, near)
        }),
        ("a set of event loops, too noisy for one", {
            let far = costs(&[("epoll", 12.0), ("uring", 12.2), ("poll", 12.1), ("threads", 60.0)]);
            Trial::new(&["epoll", "uring", "poll", "threads"], &[10, 100], 3, 7, 0.2, 3, far)
        }),
        ("threads below, epoll above", crossing(100)),
        ("epoll is worse at one load in the middle", {
            trial(&FAMILIES, &FOUR, |name, load| match (name, load) {
                ("pool", 10) => busy(9.0),
                ("epoll", 10) => busy(13.0),
                ("epoll", _) => busy(10.0),
                _ => busy(16.0),
            })
        }),
        ("one is worse for sure, the rest is not told apart", {
            trial(&["epoll", "threads", "fork"], &[100], costs(&[("epoll", 15.0), ("fork", 60.0)]))
        }),
        ("the rate decides", {
            trial(&["threads", "epoll"], &[100], |name, _| Shape {
                server_us: 12.0,
                client_us: 5.0,
                rate: if name == "epoll" { 30_000.0 } else { 20_000.0 },
            })
        }),
    ]
}

/// Further outcomes with a choice: of other loads, names and subjects.
fn odd_choices() -> Vec<(&'static str, Trial)> {
    vec![
        ("work moved to the clients", {
            trial(&["threads", "epoll"], &[1000], |name, _| match name {
                "epoll" => Shape { server_us: 16.4, client_us: 35.1, rate: 27_600.0 },
                _ => Shape { server_us: 23.6, client_us: 23.9, rate: 39_000.0 },
            })
        }),
        ("a replay", trial(&["threads", "epoll"], &[300, 3000], clear).of_recording()),
        ("a peer stands beside", {
            let names = ["threads", "epoll", "nginx"];
            let mut trial = trial(&names, &[100], costs(&[("epoll", 12.0), ("nginx", 24.0)]));
            trial.heading.design.architectures.pop();
            trial.heading.design.peers = vec![ReadyMade::named("nginx").unwrap().peer(false)];
            trial
        }),
        ("a yardstick is ahead", {
            let names = ["handwritten", "threads", "epoll"];
            trial(&names, &[100], costs(&[("handwritten", 10.5), ("epoll", 12.0)]))
        }),
        ("eight loads", trial(&FAMILIES, &[1, 2, 5, 10, 100, 1000, 10_000, 100_000], clear)),
        ("names of two columns a letter", {
            trial(&["スレッド", "イベントループのとても長い名前", "epoll"], &[10, 100], clear)
        }),
    ]
}

/// The outcomes in which some are out, or nothing is sure.
fn troubles() -> Vec<(&'static str, Trial)> {
    let usual = || trial(&["threads", "epoll", "pool"], &[10, 100], clear);
    let mut all = Vec::new();
    let mut add = |name, change: &dyn Fn(&mut Trial)| {
        let mut trial = usual();
        change(&mut trial);
        all.push((name, trial));
    };
    add("wrong replies", &|trial| {
        windows(trial, "pool", |one| {
            one.errors.insert("wrong-bytes".to_owned(), 3);
        });
    });
    add("failed requests", &|trial| {
        windows(trial, "pool", |one| {
            one.errors.insert("reset".to_owned(), 50_000);
        });
    });
    add("a crash", &|trial| {
        let reason = "the server ended: signal 6".to_owned();
        let mut own = trial.records.cells.iter_mut().filter(|cell| cell.subject == "pool");
        own.next().unwrap().outcome = Outcome::Failed { reason };
    });
    add("unavailable", &|trial| {
        let reason = "it needs more processes than this machine allows: raise the limit";
        for cell in trial.records.cells.iter_mut().filter(|cell| cell.subject == "pool") {
            cell.outcome = Outcome::lacking(reason);
        }
    });
    add("starved connections", &|trial| {
        windows(trial, "pool", |one| one.connections_served = 2);
        for slice in trial.records.blocks.iter_mut().flat_map(|block| &mut block.slices) {
            slice.connections_served = if slice.subject == "pool" { 2 } else { 100 };
        }
    });
    add("a limit to memory is broken by one", &|trial| {
        trial.heading.constraints = Constraints { slo: vec![], memory: Some(7 << 19) };
    });
    add("a limit is broken by all", &|trial| {
        let slo = vec![kept_slo("p50=1us").unwrap()];
        trial.heading.constraints = Constraints { slo, memory: None };
    });
    add("interrupted", &|trial| trial.records.cells.truncate(13));
    add("nothing was measured", &|trial| {
        trial.records.cells.clear();
        trial.records.blocks.clear();
    });
    add("the hypervisor disturbed it", &|trial| {
        for block in &mut trial.records.blocks {
            block.disturbance.processors[0].stolen = 0.4;
        }
    });
    let names = ["threads", "epoll"];
    all.push(("no difference", trial(&names, &[100], |_, _| busy(12.0))));
    all.push(("too noisy", Trial::new(&names, &[100], 3, 6, 0.6, 1, clear)));
    let few = Trial::new(&names, &[100], 3, 2, 0.01, 1, |_, _| busy(12.0));
    all.push(("too few blocks", few));
    all.push(("only one was measured", trial(&["epoll"], &[100], clear)));
    let control = trial(&names, &[100], clear).with_control("epoll", 1.3);
    all.push(("the control differs from itself", control));
    let many: Vec<String> = (0..40).map(|number| format!("architecture-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    all.push((
        "forty subjects",
        trial(&many, &[100], |name, _| {
            busy(12.0 + name.rsplit('-').next().map_or(0.0, |number| number.parse().unwrap_or(0.0)))
        }),
    ));
    all
}

/// The outcomes of "does a change pay?".
fn changes() -> Vec<(&'static str, Trial)> {
    let asked = |mut trial: Trial, current: &str| {
        trial.heading.current = Some(current.to_owned());
        trial
    };
    let names = ["threads", "epoll", "fork"];
    let yes = trial(&names, &[10, 100], |name, count| match (name, count) {
        ("epoll", 100) => busy(8.0),
        ("fork", _) => busy(60.0),
        _ => busy(12.0),
    });
    let worse = costs(&[("epoll", 10.0), ("threads", 31.8)]);
    let coarse = Trial::new(&["epoll", "threads"], &[100], 3, 6, 0.12, 1, worse);
    let level = trial(&["threads", "epoll"], &[100], |_, _| busy(12.0));
    let noisy = Trial::new(&["threads", "epoll"], &[100], 3, 6, 0.6, 1, |_, _| busy(12.0));
    let mixed = costs(&[("epoll", 12.0), ("uring", 12.5), ("threads", 40.0), ("fork", 90.0)]);
    let mixed = Trial::new(&["epoll", "uring", "threads", "fork"], &[10, 100], 3, 7, 0.2, 1, mixed);
    let mut ways = trial(&["native", "run", "cc"], &[10, 100], |name, load| match (name, load) {
        ("run", 100) => busy(8.0),
        ("cc", _) => busy(7.0),
        _ => busy(12.0),
    });
    let questions = ["run", "cc"].map(|way| (way.to_owned(), format!("Should you {way} it?")));
    ways.heading.design.ways = Some(Ways { native: "native".into(), questions: questions.into() });
    let mut half = asked(trial(&names, &[10, 100], clear), "threads");
    half.records.cells.truncate(13);
    let mut many = Trial::new(&SIXTEEN, &FOUR, 3, 7, 0.2, 1, |name, load| match (name, load) {
        ("gcd", 1) => busy(8.0),
        ("epoll" | "uring" | "select", _) => busy(12.0),
        _ => busy(30.0),
    });
    windows(&mut many, "uthreads", |one| {
        one.errors.insert("wrong-bytes".to_owned(), 3);
    });
    vec![
        ("sixteen architectures, of which not all rows fit", asked(many, "prefork")),
        ("today's is worse at one load", asked(yes, "threads")),
        ("today's is worse at each load", asked(trial(&names, &[10, 100], clear), "threads")),
        ("the only alternative is far worse, on a coarse run", asked(coarse, "epoll")),
        ("no alternative gains", asked(level, "threads")),
        ("an alternative may gain", asked(noisy, "threads")),
        ("one may gain, others are worse for sure", asked(mixed, "epoll")),
        ("today's was measured alone", asked(trial(&["epoll"], &[100], clear), "epoll")),
        ("today's question, interrupted", half),
        ("ways to run a program", ways),
    ]
}

/// Makes the subjects builds under each of these architectures: `old`, `new` or `epoll old` ….
fn of_builds(mut trial: Trial, builds: &[&str], architectures: &[&str]) -> Trial {
    let build = |name: &&str| Build {
        name: (*name).to_owned(),
        command: vec![format!("./{name}")],
        commit: None,
    };
    let built = |architecture: &str, build: &str| Built {
        subject: match architectures {
            [_] => build.to_owned(),
            _ => format!("{architecture} {build}"),
        },
        build: build.to_owned(),
        architecture: Some(architecture.to_owned()),
    };
    let under = |name: &&str| builds.iter().map(|build| built(name, build)).collect::<Vec<_>>();
    let subjects = architectures.iter().flat_map(under).collect();
    let builds = builds.iter().map(build).collect();
    trial.heading.design.builds = Some(Builds { builds, subjects });
    trial
}

const OLD_AND_NEW: [&str; 2] = ["old", "new"];

/// Two builds under epoll at 10 and 100 connections. The new one takes this time.
fn rebuilt(new: impl Fn(usize) -> f64) -> Trial {
    let trial = Trial::new(&OLD_AND_NEW, &[10, 100], 8, 12, 0.02, 1, move |name, load| {
        busy(if name == "new" { new(load) } else { 15.0 })
    });
    of_builds(trial, &OLD_AND_NEW, &["epoll"])
}

/// The outcomes of a comparison of builds.
fn builds() -> Vec<(&'static str, Trial)> {
    let mut crash = rebuilt(|_| 15.0);
    let mut own = crash.records.cells.iter_mut().filter(|cell| cell.subject == "new");
    let reason = "the server ended: signal 11".to_owned();
    own.next().unwrap().outcome = Outcome::Failed { reason };
    let mut wrong = rebuilt(|_| 12.0);
    windows(&mut wrong, "new", |one| {
        one.errors.insert("wrong-bytes".to_owned(), 3);
    });
    let four = ["epoll old", "epoll new", "threads old", "threads new"];
    let two_architectures = Trial::new(&four, &[10, 100], 8, 12, 0.02, 1, |name, load| {
        busy(match (name, load) {
            ("epoll new", 100) => 16.2,
            ("threads new", _) => 27.0,
            ("threads old", _) => 30.0,
            _ => 15.0,
        })
    });
    let three = ["old", "new", "newer"];
    let three_builds = Trial::new(&three, &[100], 8, 12, 0.02, 1, |name, _| {
        busy(match name {
            "new" => 16.0,
            "newer" => 14.0,
            _ => 15.0,
        })
    });
    let noisy = Trial::new(&OLD_AND_NEW, &[100], 3, 6, 0.3, 1, |_, _| busy(15.0));
    let mut half = rebuilt(|_| 15.0);
    half.records.cells.truncate(3);
    half.records.blocks.truncate(2);
    vec![
        ("a build is slower", rebuilt(|_| 15.9)),
        ("a build is faster", rebuilt(|_| 12.0)),
        ("a build is slower at one load and faster at another", {
            rebuilt(|load| if load == 10 { 13.0 } else { 17.0 })
        }),
        ("builds are level", rebuilt(|_| 15.0)),
        ("builds are not told apart", of_builds(noisy, &OLD_AND_NEW, &["epoll"])),
        ("a build crashes", crash),
        ("a build gives wrong replies", wrong),
        ("builds under two architectures", {
            of_builds(two_architectures, &OLD_AND_NEW, &["epoll", "threads"])
        }),
        ("three builds", of_builds(three_builds, &three, &["epoll"])),
        ("builds, interrupted", half),
    ]
}

fn outcomes() -> Vec<(&'static str, Trial)> {
    let architectures = choices().into_iter().chain(odd_choices()).chain(troubles());
    architectures.chain(changes()).chain(builds()).collect()
}

#[test]
fn each_kind_of_outcome_has_its_screen() {
    let mut all = String::new();
    for (name, trial) in outcomes() {
        let _ = write!(all, "=== {name}\n\n{}\n", screen(&trial, 80));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/fixtures/screens.txt");
    if std::env::var_os("DUALITY_BLESS").is_some() {
        fs::write(&file, &all).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap();
    let other = kept.lines().zip(all.lines()).find(|(kept, shown)| kept != shown);
    assert_eq!(other, None, "see the head of this file");
    assert_eq!(kept.lines().count(), all.lines().count());
}

#[test]
fn screens_fit_every_terminal_and_break_no_word() {
    for (name, trial) in outcomes() {
        let answer = Answer::of(&trial.heading, &trial.records);
        let said = &answer.recommendation;
        assert!(words(&said.headline) <= MOST_WORDS, "{name}: {}", said.headline);
        for width in [40, 60, 80, 200] {
            let shown = rendered(&answer, width);
            assert!(shown.lines().count() <= 23, "{name} at {width}:\n{shown}");
            let foot = |line: &&str| line.starts_with("Report: ") || line.starts_with("More:   ");
            let wide = shown
                .lines()
                .filter(|line| !foot(line))
                .find(|line| textwrap::core::display_width(line) > width);
            assert_eq!(wide, None, "{name} at {width}:\n{shown}");
            // The headline is whole, and so is each word.
            let headline: Vec<&str> = said.headline.split_whitespace().collect();
            let first: Vec<&str> = shown.split_whitespace().take(headline.len()).collect();
            assert_eq!(headline, first, "{name} at {width}");
            assert!(shown.contains("\nReport: out/report.html\nMore:   duality report out"));
            has_what_tells_most(&answer, &shown, &format!("{name} at {width}:\n{shown}"));
        }
    }
}

/// A map has what runs today, what is recommended, and one of each family, whatever is left out.
fn has_what_tells_most(answer: &Answer<'_>, shown: &str, place: &str) {
    let summary = &answer.summary;
    let is_row = |name: &str| shown.lines().any(|line| line.starts_with(&format!("{name} ")));
    if !is_row("% worse") && !is_row("% change") {
        return;
    }
    let asked = summary.current.iter().chain(&answer.recommendation.architecture);
    for name in asked {
        assert!(is_row(name), "{name}: {place}");
    }
    for family in summary.families.values() {
        let mut own = summary.families.iter().filter(|(_, other)| *other == family);
        let is_measured = own.clone().any(|(name, _)| summary.subjects.contains(name));
        assert!(!is_measured || own.any(|(name, _)| is_row(name)), "{family:?}: {place}");
    }
}

#[test]
fn a_replay_is_not_of_connections() {
    let trial = trial(&["threads", "epoll"], &[300, 3000], clear).of_recording();
    let shown = screen(&trial, 80);
    assert_eq!(fixtures::in_connections(&shown), Vec::<String>::new(), "{shown}");
}

/// The README's first question: the only alternative is worse by three times, for sure, though the
/// run could not have shown a small difference.
#[test]
fn an_alternative_that_is_worse_for_sure_is_a_no_however_coarse_the_run() {
    let all = changes();
    let (_, trial) = all.iter().find(|(name, _)| name.contains("coarse")).unwrap();
    let verdict = trial.verdict();
    assert!(verdict.critical.unwrap() > 0.15, "{verdict:?}");
    assert!(verdict.finding != Finding::NoDifference);
    let shown = screen(trial, 80);
    assert!(shown.starts_with("No: keep epoll. Every alternative is worse for sure"), "{shown}");
}
