//! The verdict on made-up experiments: which subjects it tells from the best, and when it is
//! withheld.

use duality_lab::judge::verdict::{Cause, Evidence, Finding, Metric, Verdict};
use duality_lab::record::{Outcome, Records};

use crate::trials::{self, Shape, Trial, busy, trial};

const TEN: [&str; 10] = [
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
];

fn level(verdict: &Verdict) -> Vec<&str> {
    let level = verdict.standings.iter().filter(|standing| standing.level);
    level.map(|standing| standing.subject.as_str()).collect()
}

fn cause(trial: &Trial) -> Cause {
    match trial.verdict().finding {
        Finding::Withheld { cause } => cause,
        finding => panic!("{finding:?}"),
    }
}

#[test]
fn who_is_better_is_best_and_who_is_not_is_told_by_how_much() {
    let verdict = trial(&["threads", "epoll"], &[100], |name, _| {
        busy(if name == "epoll" { 12.0 } else { 15.0 })
    })
    .verdict();
    assert_eq!(verdict.finding, Finding::Best { subject: "epoll".into() });
    assert_eq!(verdict.metric, Metric::ServerCpu);
    let [best, other] = verdict.standings.as_slice() else { panic!("{verdict:?}") };
    assert!((11.0..13.0).contains(&best.value) && best.behind == 0.0, "{best:?}");
    assert!(other.low < 0.25 && 0.25 < other.high && other.low > 0.1, "{other:?}");
    assert!((0.01..0.1).contains(&verdict.critical.unwrap()), "{verdict:?}");
    assert_eq!((verdict.evidence.blocks, verdict.evidence.sessions), (21, 3));
}

#[test]
fn equal_ones_are_level_and_worse_ones_are_not() {
    let verdict = trial(&["threads", "uring", "epoll"], &[100], |name, _| {
        busy(if name == "threads" { 15.0 } else { 12.0 })
    })
    .verdict();
    assert!(matches!(verdict.finding, Finding::Level { .. }), "{verdict:?}");
    let mut level = level(&verdict);
    level.sort_unstable();
    assert_eq!(level, ["epoll", "uring"]);
}

#[test]
fn no_difference_is_a_finding() {
    let verdict = trial(&["threads", "epoll", "uring"], &[100], |_, _| busy(12.0)).verdict();
    assert_eq!(verdict.finding, Finding::NoDifference);
    assert_eq!(level(&verdict).len(), 3);
}

/// 100 experiments with ten equal subjects, of which the rule lets 2 or 3 put one of them out.
#[test]
fn equal_subjects_are_seldom_put_out_and_never_win_alone() {
    let (mut out, mut alone) = (0, 0);
    for seed in 0..100 {
        let trial = Trial::new(&TEN, &[100], 3, 5, 0.1, seed, |_, _| busy(12.0));
        let verdict = trial.verdict();
        out += usize::from(level(&verdict).len() < TEN.len());
        alone += usize::from(matches!(verdict.finding, Finding::Best { .. }));
    }
    assert!(out <= 8, "{out} of 100");
    assert_eq!(alone, 0);
}

/// Few and noisy blocks, as on a shared machine, show no small differences. The verdict must be
/// true all the same, and must tell large differences.
#[test]
fn what_is_put_out_is_worse_for_sure_however_coarse_the_rest_is() {
    type Spoil = fn(Trial) -> Trial;
    let shapes: [(usize, usize, f64, Spoil); 9] = [
        (3, 5, 0.12, |trial| trial),
        (3, 5, 0.2, |trial| trial),
        (3, 2, 0.15, |trial| trial),
        (3, 1, 0.1, |trial| trial),
        (2, 2, 0.1, |trial| trial),
        (2, 6, 0.15, |trial| trial),
        (3, 3, 0.12, Trial::with_outliers),
        (3, 5, 0.12, |trial| trial.with_biases(0.02)),
        (2, 6, 0.12, |trial| trial.with_biases(0.02)),
    ];
    for (sessions, blocks, noise, spoil) in shapes {
        let (mut out, mut alone, mut coarse, mut found) = (0, 0, 0, 0);
        for seed in 0..1000 {
            let trial = Trial::new(&TEN, &[100], sessions, blocks, noise, seed, |_, _| busy(12.0));
            let equal = spoil(trial).bare_verdict();
            out += usize::from(equal.tells_apart());
            alone += usize::from(matches!(equal.finding, Finding::Best { .. }));
            coarse += usize::from(equal.critical.unwrap() > 0.15);
        }
        for seed in 0..100 {
            let planted = |name: &str, _| busy(if name == "threads" { 19.2 } else { 12.0 });
            let trial = Trial::new(&TEN, &[100], sessions, blocks, noise, seed, planted);
            let verdict = spoil(trial).bare_verdict();
            let put_out: Vec<&str> = verdict.excluded().map(|one| one.subject.as_str()).collect();
            found += usize::from(put_out.contains(&"threads"));
        }
        println!(
            "{sessions} sessions of {blocks} blocks, noise {noise}: of 1,000 {out} tell equal ones apart, {coarse} coarse; of 100 \
             {found} find +60 %"
        );
        // 25 are expected; three standard deviations more.
        assert!(out <= 40, "{out} of 1,000: {sessions} sessions of {blocks}, {noise}");
        assert_eq!(alone, 0);
        assert!(found >= 90, "{found} of 100: {sessions} sessions of {blocks}, {noise}");
    }
}

#[test]
fn the_set_and_who_is_out_are_told_where_none_of_it_can_be_recommended() {
    let planted = |name: &str, _| busy(if name == "threads" { 30.0 } else { 12.0 });
    let verdict = Trial::new(&TEN, &[100], 3, 5, 0.25, 1, planted).verdict();
    assert!(verdict.critical.unwrap() > 0.15, "{verdict:?}");
    assert_eq!(verdict.imprecise, Some(Cause::Coarse));
    assert!(verdict.tells_apart() && !verdict.can_recommend(), "{verdict:?}");
    let [threads] = verdict.excluded().collect::<Vec<_>>()[..] else { panic!("{verdict:?}") };
    assert!(
        threads.subject == "threads"
            && threads.low > 0.5
            && threads.low < 1.5
            && 1.5 < threads.high,
        "{threads:?}"
    );
    assert_eq!(verdict.leaders().count(), 9);
    // Too few blocks, or too many disturbed ones, are no reason to keep what is sure, either.
    let few = Trial::new(&TEN, &[100], 3, 4, 0.05, 1, planted).verdict();
    assert_eq!(few.imprecise, Some(Cause::FewBlocks { needed: 15 }));
    // The range of a race holds with few blocks, too.
    let mut race = Trial::new(&TEN, &[100], 3, 4, 0.02, 1, planted);
    race.heading.design.race = true;
    let race = race.verdict();
    assert!(race.evidence.blocks < 15 && race.imprecise.is_none(), "{race:?}");
    let mut disturbed = Trial::new(&TEN, &[100], 3, 10, 0.05, 1, planted);
    for block in disturbed.records.blocks.iter_mut().filter(|block| block.number < 6) {
        block.disturbance.processors[0].stolen = 0.9;
    }
    let disturbed = disturbed.verdict();
    let Evidence { blocks, dropped, lighter, .. } = disturbed.evidence;
    assert!(blocks == 30 && dropped == 0 && lighter >= 18, "{disturbed:?}");
    for verdict in [few, disturbed] {
        assert!(verdict.excluded().any(|one| one.subject == "threads"), "{verdict:?}");
    }
}

#[test]
fn ten_percent_is_found_in_25_blocks() {
    let found = (0..50).filter(|&seed| {
        let shape = |name: &str, _| busy(if name == "fork" { 13.2 } else { 12.0 });
        let verdict = Trial::new(&TEN, &[20, 200, 1000, 1], 3, 8, 0.09, seed, shape).verdict();
        !level(&verdict).contains(&"fork")
    });
    let found = found.count();
    assert!(found >= 40, "{found} of 50");
}

#[test]
fn the_rate_decides_only_where_servers_wait_or_have_several_processors() {
    let waiting = Shape { server_us: 20.0, client_us: 20.0, rate: 15_000.0 };
    let names = ["threads", "epoll"];
    let at_rest = trial(&names, &[1], |_, _| waiting);
    assert_eq!(at_rest.verdict().metric, Metric::Rate);
    // One waiting server does not make the rate the metric: one metric decides for all.
    let three = ["threads", "epoll", "uring"];
    let mixed = trial(&three, &[1], |name, _| if name == "uring" { waiting } else { busy(12.0) });
    assert_eq!(mixed.verdict().metric, Metric::ServerCpu);
    // With several processors the rate decides, unless the load generator is the limit.
    let free = |_: &str, _| Shape { server_us: 40.0, client_us: 10.0, rate: 45_000.0 };
    let mut several = trial(&names, &[100], free);
    several.heading.design.server_cpus = vec![0, 2];
    assert_eq!(several.verdict().metric, Metric::Rate);
    let mut limited = trial(&names, &[100], |_, _| busy(8.0));
    limited.heading.design.server_cpus = vec![0, 2];
    assert_eq!(limited.verdict().metric, Metric::ServerCpu);
}

#[test]
fn strangers_on_its_processor_do_not_make_a_server_wait() {
    let shape = |_: &str, _| Shape { server_us: 12.0, client_us: 10.0, rate: 40_000.0 };
    let mut trial = trial(&["threads", "epoll"], &[100], shape);
    assert_eq!(trial.verdict().metric, Metric::Rate);
    for block in &mut trial.records.blocks {
        block.disturbance.processors[0].strangers = 0.45;
    }
    let verdict = trial.verdict();
    assert_eq!(verdict.metric, Metric::ServerCpu);
    assert_eq!((verdict.evidence.with_strangers, verdict.evidence.dropped), (21, 0));
}

#[test]
fn blocks_with_steal_count_less_and_so_do_those_around_them() {
    let mut trial = trial(&["threads", "epoll"], &[100], |name, _| {
        busy(if name == "epoll" { 12.0 } else { 15.0 })
    });
    let spoil = |trial: &mut Trial, place: usize, share: f64| {
        let block = &mut trial.records.blocks[place];
        block.disturbance.processors[1].stolen = share;
        block.slices[0].server_cpu_us *= 9.0;
    };
    // A third of 0.8 s is 11 % of the three blocks within reach, and so of its neighbours.
    spoil(&mut trial, 10, 0.36);
    let verdict = trial.verdict();
    let Evidence { dropped, lighter, blocks, stolen, stolen_cpu, .. } = verdict.evidence;
    assert_eq!((dropped, lighter, blocks), (0, 3, 21));
    assert_eq!((stolen, stolen_cpu), (0.36, Some(1)));
    assert_eq!(verdict.finding, Finding::Best { subject: "epoll".into() });
    // Less steal does no harm, and a session does not spoil the next.
    trial.records.blocks[10].disturbance.processors[1].stolen = 0.05;
    assert_eq!(trial.verdict().evidence.lighter, 0);
    trial.records.blocks[7].disturbance.processors[1].stolen = 0.6;
    assert_eq!(trial.verdict().evidence.lighter, 2);
    for place in 0..14 {
        spoil(&mut trial, place, 0.5);
    }
    assert_eq!(cause(&trial), Cause::Disturbed);
}

#[test]
fn it_says_nothing_when_there_is_too_little() {
    let names = ["threads", "epoll"];
    let shape = |name: &str, _| busy(if name == "epoll" { 12.0 } else { 15.0 });
    let level = |_: &str, _| busy(12.0);
    let few = Trial::new(&names, &[100], 3, 4, 0.02, 1, level);
    assert_eq!(cause(&few), Cause::FewBlocks { needed: 15 });
    let sessions = Trial::new(&names, &[100], 2, 20, 0.02, 1, level);
    assert_eq!(cause(&sessions), Cause::FewBlocks { needed: 15 });
    // Luck of one process at its start cannot be told from the architecture's effect.
    let one = Trial::new(&names, &[100], 1, 20, 0.02, 1, shape);
    assert_eq!(cause(&one), Cause::FewBlocks { needed: 15 });
    let noisy = Trial::new(&names, &[100], 3, 6, 0.5, 1, shape);
    assert_eq!(cause(&noisy), Cause::Coarse);
    let four = ["threads", "epoll", "pool", "fork"];
    let mut partial = trial(&four, &[100], shape);
    // The last of three sessions spent its share of the time after four of seven blocks.
    partial.records.blocks.truncate(18);
    assert_eq!(partial.verdict().finding, Finding::Best { subject: "epoll".into() });
    // It never began: what two sessions show is sure.
    partial.records.blocks.truncate(14);
    assert_eq!(partial.verdict().finding, Finding::Best { subject: "epoll".into() });
    // One session shows what its processes are, and nothing else.
    partial.records.blocks.truncate(7);
    assert_eq!(cause(&partial), Cause::Partial);
    assert_eq!(cause(&trial(&["epoll"], &[100], shape)), Cause::Alone { subject: "epoll".into() });
}

#[test]
fn the_noise_of_one_that_is_far_behind_withholds_nothing() {
    let names = ["threads", "uring", "epoll", "poll", "fork"];
    let mut trial = trial(&names, &[100], |name, _| busy(if name == "fork" { 60.0 } else { 12.0 }));
    for (number, block) in trial.records.blocks.iter_mut().enumerate() {
        for slice in block.slices.iter_mut().filter(|slice| slice.subject == "fork") {
            slice.server_cpu_us *= if number % 2 == 0 { 1.5 } else { 0.7 };
        }
    }
    let verdict = &trial.verdict();
    let fork = verdict.standings.iter().find(|standing| standing.subject == "fork").unwrap();
    assert!(!fork.level && fork.behind - fork.low > 0.5, "{fork:?}");
    // Four subjects in three sessions have six degrees of freedom.
    assert!(verdict.critical.unwrap() < 0.15, "{:?}", verdict.critical);
    assert_eq!(level(verdict).len(), 4, "{verdict:?}");
}

#[test]
fn a_control_that_differs_from_itself_withholds_the_verdict() {
    let names = ["threads", "epoll"];
    let shape = |name: &str, _| busy(if name == "epoll" { 12.0 } else { 15.0 });
    let sound = trial(&names, &[100], shape).with_control("epoll", 1.0);
    let verdict = sound.verdict();
    assert_eq!(verdict.finding, Finding::Best { subject: "epoll".into() });
    assert!(verdict.control.as_ref().unwrap().holds(), "{verdict:?}");
    // It is no candidate.
    assert_eq!(verdict.standings.len(), 2);
    assert_eq!(cause(&trial(&names, &[100], shape).with_control("epoll", 1.2)), Cause::Control);
}

/// If the generator limited the leader, others are left out only for causes of their own.
#[test]
fn nobody_is_left_out_for_what_another_did() {
    let verdict = trial(&["threads", "epoll", "uring"], &[100], |name, _| match name {
        "uring" => busy(9.0),
        "epoll" => busy(12.0),
        _ => busy(15.0),
    })
    .verdict();
    assert_eq!(verdict.standings.len(), 3);
    let at_least = |name: &str| {
        verdict.standings.iter().find(|standing| standing.subject == name).unwrap().at_least
    };
    assert!(at_least("uring") && !at_least("threads"), "{verdict:?}");
}

#[test]
fn whose_replies_were_wrong_cannot_be_best() {
    let mut trial = trial(&["threads", "epoll"], &[100], |name, _| {
        busy(if name == "epoll" { 12.0 } else { 15.0 })
    });
    for cell in &mut trial.records.cells {
        let Outcome::Measured(figures) = &mut cell.outcome else { panic!() };
        if cell.subject == "epoll" {
            figures.errors.insert("wrong-bytes".to_owned(), 1);
        }
    }
    assert_eq!(cause(&trial), Cause::Alone { subject: "threads".into() });
    // It is shown beside the others.
    assert_eq!(trial.verdict().others[0].subject, "epoll");
}

/// In a slice of a block that does not count, in a window that is left out, and in the control.
#[test]
fn a_wrong_reply_counts_wherever_it_came() {
    let names = ["threads", "uring", "epoll"];
    let shape = |name: &str, _| busy(if name == "epoll" { 12.0 } else { 15.0 });
    let is_out = |trial: &Trial| {
        let verdict = trial.verdict();
        assert_eq!(verdict.finding, Finding::NoDifference, "{verdict:?}");
        verdict.others.iter().any(|other| other.subject == "epoll")
    };
    assert!(is_out(&trial(&names, &[100], shape).with_failures("epoll", 5, "wrong-bytes", 1)));
    let mut dropped = trial(&names, &[100], shape).with_failures("epoll", 5, "malformed", 1);
    dropped.records.blocks[5].disturbance.processors[0].stolen = 0.9;
    assert!(is_out(&dropped));
    let mut invalid = trial(&names, &[100], shape);
    let cell = invalid.records.cells.iter_mut().find(|cell| cell.subject == "epoll").unwrap();
    let Outcome::Measured(figures) = &mut cell.outcome else { panic!() };
    figures.errors.insert("wrong-bytes".to_owned(), 1);
    figures.invalid.insert("starved".to_owned(), "It had no processor.".to_owned());
    assert!(is_out(&invalid));
    let again = trial(&names, &[100], shape).with_control("epoll", 1.0);
    let control = again.heading.design.control.clone().unwrap();
    assert!(is_out(&again.with_failures(&control, 5, "wrong-status", 1)));
    // Warnings from before there were kinds are not known to be harmless.
    let mut old = trial(&names, &[100], shape).with_failures("epoll", 5, "wrong-bytes", 1);
    old.records.blocks[5].slices.iter_mut().for_each(|slice| slice.errors.clear());
    assert!(is_out(&old));
    // A cut connection is reported, and is no wrong reply.
    let cut = trial(&names, &[100], shape).with_failures("epoll", 5, "reset", 1);
    assert_eq!(cut.verdict().finding, Finding::Best { subject: "epoll".into() });
}

#[test]
fn who_leaves_connections_unserved_cannot_be_best() {
    let mut trial = trial(&["iterative", "threads", "epoll"], &[1000], |name, _| {
        busy(if name == "iterative" { 9.0 } else { 12.0 })
    });
    for slice in trial.records.blocks.iter_mut().flat_map(|block| &mut block.slices) {
        if slice.subject == "iterative" {
            slice.connections_served = 2;
        }
    }
    for cell in trial.records.cells.iter_mut().filter(|cell| cell.subject == "iterative") {
        let Outcome::Measured(figures) = &mut cell.outcome else { panic!() };
        figures.connections_served = 2;
    }
    assert_eq!(trial.verdict().finding, Finding::NoDifference);
    assert_eq!(trial.verdict().others[0].subject, "iterative");
}

#[test]
fn work_that_moved_to_the_client_is_no_victory() {
    let names = ["threads", "epoll"];
    // As measured on connections that are closed after each request: the sums are 51.5 and 47.5.
    let moved = trial(&names, &[1000], |name, _| match name {
        "epoll" => Shape { server_us: 16.4, client_us: 35.1, rate: 27_600.0 },
        _ => Shape { server_us: 23.6, client_us: 23.9, rate: 39_000.0 },
    });
    let verdict = moved.verdict();
    assert_eq!(verdict.finding, Finding::NoDifference, "{verdict:?}");
    assert!(verdict.standings[1].work_moved);
    // A subject that is worse at both ends, and in their sum, is worse.
    let worse = trial(&names, &[1000], |name, _| match name {
        "epoll" => Shape { server_us: 16.4, client_us: 20.0, rate: 40_000.0 },
        _ => Shape { server_us: 23.6, client_us: 24.0, rate: 38_000.0 },
    });
    assert_eq!(worse.verdict().finding, Finding::Best { subject: "epoll".into() });
}

#[test]
fn groups_are_compared_by_way_of_the_one_that_is_in_both() {
    let names = ["threads", "epoll", "uring"];
    let shape = |name: &str, _| match name {
        "threads" => busy(15.0),
        "epoll" => busy(12.0),
        _ => busy(14.0),
    };
    let mut trial = trial(&names, &[100], shape);
    let blocks = trial.records.blocks.clone();
    trial.records.blocks.clear();
    for (group, left_out) in ["uring", "threads"].into_iter().enumerate() {
        for mut block in blocks.clone() {
            block.group = group;
            block.slices.retain(|slice| slice.subject != left_out);
            trial.records.blocks.push(block);
        }
    }
    let verdict = trial.verdict();
    assert_eq!(verdict.evidence.groups, 2);
    assert_eq!(verdict.finding, Finding::Best { subject: "epoll".into() });
    let order: Vec<&str> =
        verdict.standings.iter().map(|standing| standing.subject.as_str()).collect();
    assert_eq!(order, ["epoll", "uring", "threads"]);
}

/// Servers that were measured one after the other, in windows.
fn in_turn(repeats: usize, pattern: &str, latency: impl Fn(&str) -> f64) -> Trial {
    let mut trial =
        Trial::new(&["threads", "epoll"], &[100], repeats, 0, 0.0, 1, |_, _| busy(12.0));
    trial.heading.design.clients.pattern = pattern.to_owned();
    for (place, cell) in trial.records.cells.iter_mut().enumerate() {
        let Outcome::Measured(figures) = &mut cell.outcome else { panic!() };
        let wobble = 1.0 + 0.003 * (place % 3) as f64;
        figures.server_cpu_us_per_request *= wobble;
        figures.latency_us.p50 = latency(&cell.subject) * wobble;
    }
    trial
}

#[test]
fn in_an_open_loop_the_latency_decides() {
    let verdict =
        in_turn(5, "open", |name| if name == "threads" { 1800.0 } else { 800.0 }).verdict();
    assert_eq!(verdict.metric, Metric::Latency("p50"));
    assert_eq!(verdict.finding, Finding::Best { subject: "epoll".into() });
    assert!(verdict.evidence.in_turn);
    let same = in_turn(5, "open", |_| 800.0).verdict();
    assert_eq!(same.finding, Finding::NoDifference);
}

#[test]
fn windows_in_turn_need_three_rounds() {
    assert_eq!(cause(&in_turn(2, "serial", |_| 1.0)), Cause::FewBlocks { needed: 3 });
    let mut trial = in_turn(3, "serial", |_| 1.0);
    assert_eq!(trial.verdict().finding, Finding::NoDifference);
    // A window that the hypervisor spoilt does not count.
    let Outcome::Measured(figures) = &mut trial.records.cells[0].outcome else { panic!() };
    let mut disturbance = trials::quiet();
    disturbance.processors[0].stolen = 0.3;
    figures.disturbance = Some(disturbance);
    assert!(matches!(cause(&trial), Cause::FewBlocks { .. }));
}

#[test]
fn nothing_measured_is_not_complete() {
    let mut trial = trial(&["threads", "epoll"], &[100], |_, _| busy(12.0));
    trial.records = Records::default();
    let verdict = trial.verdict();
    assert_eq!(verdict.finding, Finding::Withheld { cause: Cause::Partial });
}
