//! The report's words on the soundness of figures: the control, noise, trends, and invalid cells.

use crate::fixtures;
use duality_lab::judge::summary::Summary;
use duality_lab::record::{Design, Heading, Measured, Outcome, Records};
use duality_lab::tell::answer::Answer;
use duality_lab::tell::data;
use duality_lab::tell::recommendation::recommend;

/// Fixed noise: the deviation of each of five repeats.
const WOBBLE: [f64; 5] = [0.004, -0.006, 0.0, 0.009, -0.003];

/// Epoll at 50,000 requests/s, threads at a share of that, and epoll again at another share.
/// `change` may do something to a repeat of a subject.
fn trial(
    threads: f64,
    again: f64,
    change: impl Fn(&str, usize, &mut Measured),
) -> (Heading, Records) {
    let mut heading = fixtures::heading(&["threads", "epoll"], &[100], 5);
    let control = Design::again("epoll");
    heading.design.control = Some(control.clone());
    let mut cells = Vec::new();
    for (place, (name, share)) in
        [("threads", threads), ("epoll", 1.0), (control.as_str(), again)].into_iter().enumerate()
    {
        for repeat in 0..5 {
            let off = 1.0 + WOBBLE[(repeat + 2 * place) % 5];
            let mut measured = fixtures::measured(100, 50_000.0 * share * off, 12.0, 4.0);
            change(name, repeat, &mut measured);
            cells.push(fixtures::cell(name, 100, repeat, Outcome::Measured(Box::new(measured))));
        }
    }
    (heading, Records { cells, blocks: Vec::new() })
}

fn told((heading, records): (Heading, Records)) -> String {
    let summary = Summary::of(&heading, &records);
    summary.render_text(&recommend(&summary, &heading, &records), None)
}

#[test]
fn the_control_is_a_tie_and_takes_no_part() {
    let trial = trial(0.8, 1.003, |_, _, _| ());
    let summary = Summary::of(&trial.0, &trial.1);
    assert_eq!((summary.planned, summary.done, summary.partial()), (15, 15, None));
    assert_eq!(summary.subjects, ["threads", "epoll"]);
    let said = recommend(&summary, &trial.0, &trial.1);
    let told: Vec<&str> = said.all_sentences().collect();
    let told = told.join("\n");
    assert!(told.starts_with("Choose epoll: it is the best at 100 connections."), "{told}");
    let control = "A/A control: epoll, measured under two names, differs from itself by -0.3 % at 100, as much as chance allows.";
    assert!(told.contains(control), "{told}");
    assert!(!told.contains("epoll (again)"), "{told}");
    let data = data::summary(&Answer::of(&trial.0, &trial.1));
    assert_eq!(data["cells"].as_array().unwrap().len(), 2, "{data}");
    assert_eq!(data["control"]["cells"][0]["architecture"], "epoll (again)");
    assert_eq!(data["control"]["checks"][0]["is_tie"], true);
    assert_eq!(data["cells"][0]["invalid"], false);
}

#[test]
fn noise_outliers_and_trends_are_marked_and_counted() {
    let noisy = told(trial(0.8, 1.0, |name, repeat, measured| match (name, repeat) {
        ("threads", 0 | 1) => measured.requests_per_second *= 0.8,
        ("epoll", 3) => measured.requests_per_second = 30_000.0,
        _ => {}
    }));
    assert!(noisy.contains("! threads: Noisy: requests/s vary by 12."), "{noisy}");
    let outlier = "! epoll: 30,000 requests/s is an outlier among 5 repeats, and counted. (at 100)";
    assert!(noisy.contains(outlier), "{noisy}");
    let falling = told(trial(0.8, 1.0, |name, repeat, measured| {
        let slope = if name == "epoll" && repeat > 1 { 0.02 } else { 0.0 };
        measured.slices_requests_per_second =
            (0..20).map(|part| 50_000.0 * (1.0 - slope * f64::from(part))).collect();
    }));
    let trend = "! epoll: Not in a steady state: requests/s fell by 29 % from the first to the last third of the \
                 window (in 3 of 5 repeats)";
    assert!(falling.contains(trend), "{falling}");
    assert!(!falling.contains("threads: Not in"), "{falling}");
}

#[test]
fn invalid_repeats_are_left_out_and_invalid_rows_are_not_compared() {
    let starve = |from: usize| {
        trial(0.8, 1.0, move |name, repeat, measured| {
            if name == "epoll" && repeat >= from {
                measured.requests_per_second = 90_000.0;
                let why = "The generator was starved.".to_owned();
                measured.invalid.insert("starved".to_owned(), why);
            }
        })
    };
    let few = told(starve(4));
    assert!(
        few.contains("! epoll: 1 of 5 repeats invalid and left out: The generator was starved."),
        "{few}"
    );
    assert!(few.contains("Choose epoll") && !few.contains("outlier"), "{few}");
    let most = told(starve(2));
    assert!(most.contains("! epoll: 3 of 5 repeats invalid: The generator was starved."), "{most}");
    assert!(
        most.contains("only threads was measured and can be chosen") && most.contains('✗'),
        "{most}"
    );
    let why =
        "Not compared, because the load generator could not do its work there: epoll (at 100).";
    assert!(most.contains(why), "{most}");
    let (heading, mut records) = starve(0);
    records.cells.retain(|cell| cell.subject == "epoll");
    let nothing = told((heading, records));
    assert!(nothing.contains("No recommendation: the experiment is not complete"), "{nothing}");
}

/// A results file from before there was a control, or marks.
#[test]
fn what_was_written_before_can_be_read() {
    let (heading, records) = fixtures::comparison();
    let Outcome::Measured(measured) = &records.cells[0].outcome else { panic!() };
    let mut old = serde_json::to_value(measured).unwrap();
    let keys = old.as_object_mut().unwrap();
    assert!(keys.remove("client_wait_share").is_some());
    assert!(!keys.contains_key("invalid") && !keys.contains_key("slices_requests_per_second"));
    assert_eq!(serde_json::from_value::<Measured>(old).unwrap(), **measured);
    assert!(!serde_json::to_string(&heading).unwrap().contains("control"));
}
