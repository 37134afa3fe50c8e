//! The arithmetic on synthetic servers with known unit costs and t_independent.

use proptest::prelude::*;

use super::costs::tests::{carrier, round_costs};
use super::*;
use crate::tell::answers::model::sheet;
use crate::tell::render::html::html;
use crate::tell::render::text::{WIDE, text};

/// Servers that all need 10 µs, plus the time of their counted operations.
fn workload() -> Workload {
    let counts = |pairs: &'static [(Operation, f64)]| {
        Counts::from(move |operation| {
            pairs.iter().find(|(one, _)| *one == operation).map_or(0.0, |(_, count)| *count)
        })
    };
    let servers = [
        (
            "epoll",
            counts(&[(Operation::Task, 1.0), (Operation::Turn, 2.0), (Operation::Round, 0.5)]),
        ),
        ("fork", counts(&[(Operation::Process, 1.0), (Operation::KernelSwitch, 2.0)])),
        ("threads", counts(&[(Operation::Thread, 1.0), (Operation::KernelSwitch, 1.5)])),
    ];
    of(50, 10.0, &servers)
}

fn of(connections: usize, independent: f64, servers: &[(&str, Counts)]) -> Workload {
    let costs = round_costs();
    let subjects = servers.iter().map(|(name, counts)| {
        let carrier = carrier(name, &[]).unwrap();
        let mut modelled = Modelled::new(name, carrier, 0.0, *counts, &costs).unwrap();
        modelled.total = independent + modelled.dependent();
        modelled
    });
    Workload {
        name: "http".into(),
        connections,
        subjects: subjects.collect(),
        missing: Vec::new(),
        noise: None,
    }
}

const ARCHITECTURES: [&str; 9] =
    ["iterative", "fork", "prefork", "threads", "pool", "uthreads", "select", "epoll", "uring"];

fn any_counts() -> impl Strategy<Value = Vec<Counts>> {
    let one = prop::collection::vec(0.0..4.0f64, Operation::ALL.len());
    prop::collection::vec(one, ARCHITECTURES.len()).prop_map(|all| {
        all.into_iter().map(|values| Counts::from(|operation| values[operation as usize])).collect()
    })
}

proptest! {
    /// Known prices and counts yield the original t_independent, and no variation is left.
    #[test]
    fn what_was_put_in_comes_out(counts in any_counts(), independent in 1.0..100.0f64) {
        let servers: Vec<(&str, Counts)> = ARCHITECTURES.into_iter().zip(counts).collect();
        let workload = of(200, independent, &servers);
        for subject in &workload.subjects {
            prop_assert!((subject.independent() - independent).abs() < 1e-6);
        }
        let row = coefficients(&workload, None);
        prop_assert!(row.steps[TERMS.len()].unwrap() < 1e-6);
        prop_assert!(row.steps[0].unwrap() > 1e-6);
        prop_assert!(row.deviations.is_empty());
    }

    /// No variation is left either if a term costs more in servers than alone. The fit finds the
    /// factor, from all workloads together.
    #[test]
    fn a_fit_finds_what_a_price_lacks(
        many in prop::collection::vec(any_counts(), 3),
        wrong in 0.5..3.0f64,
        term in 0..TERMS.len(),
    ) {
        let workloads: Vec<Workload> = many
            .into_iter()
            .map(|counts| {
                let servers: Vec<(&str, Counts)> = ARCHITECTURES.into_iter().zip(counts).collect();
                let mut workload = of(50, 10.0, &servers);
                for subject in &mut workload.subjects {
                    subject.total += (wrong - 1.0) * subject.terms[term];
                }
                workload
            })
            .collect();
        let factors = fit::factors(&workloads).unwrap();
        for (index, factor) in factors.into_iter().enumerate() {
            let expected = if index == term { wrong } else { 1.0 };
            prop_assert!((factor.unwrap() - expected).abs() < 0.02, "{index}: {factor:?}");
        }
        for workload in &workloads {
            let row = coefficients(workload, Some(&factors));
            prop_assert!(row.fitted.unwrap() < 0.05, "{:?}", row.fitted);
        }
    }

    /// Figures that change in straight lines are predicted exactly, between and beyond the
    /// measurements.
    #[test]
    fn steady_counts_are_predicted_for_any_load(counts in any_counts(), at in 1usize..20_000) {
        let servers: Vec<(&str, Counts)> = ARCHITECTURES.into_iter().zip(counts).collect();
        let known = [of(50, 10.0, &servers), of(1000, 10.0, &servers)];
        let mut predictions = predict(&known, at, &round_costs()).unwrap();
        check(&mut predictions, &[of(at, 10.0, &servers)]);
        prop_assert_eq!(predictions.len(), ARCHITECTURES.len());
        for prediction in predictions {
            prop_assert!(prediction.error().unwrap().abs() < 1e-9, "{prediction:?}");
        }
    }
}

#[test]
fn coefficients_are_of_a_sample() {
    assert_eq!(coefficient(&[1.0, 3.0]), Some(2.0f64.sqrt() / 2.0));
    assert_eq!(coefficient(&[5.0, 5.0, 5.0]), Some(0.0));
    assert_eq!(
        (coefficient(&[1.0]), coefficient(&[]), coefficient(&[-1.0, 1.0])),
        (None, None, None)
    );
}

#[test]
fn who_deviates_is_named_with_the_amount() {
    let mut workload = workload();
    workload.subjects[2].total += 4.0;
    let row = coefficients(&workload, None);
    let [deviation] = &row.deviations[..] else { panic!("{row:?}") };
    assert_eq!(deviation.architecture, "threads");
    assert!((deviation.microseconds - 4.0).abs() < 1e-9 && (deviation.share - 0.4).abs() < 1e-9);
    let model = Model { costs: round_costs(), workloads: vec![workload], checks: Vec::new() };
    let answer = text(&sheet(&model), WIDE);
    assert!(answer.contains("threads +4.00 µs (+40 %)"), "{answer}");
}

#[test]
fn each_term_takes_its_own_variation_off() {
    let row = coefficients(&workload(), None);
    // Creation separates the three, and kernel switches separate the rest.
    assert!(row.steps[1] < row.steps[0] && row.steps[TERMS.len()] < row.steps[1], "{row:?}");
}

#[test]
fn a_factor_that_is_no_price_is_withheld_with_the_reason() {
    // Turns cost next to nothing. Servers differ by noise that happens to follow the turns.
    let turns = |count: f64| {
        Counts::from(move |operation| if operation == Operation::Turn { count } else { 0.0 })
    };
    let servers: Vec<(&str, Counts)> =
        ARCHITECTURES.iter().zip(1..).map(|(name, many)| (*name, turns(f64::from(many)))).collect();
    let mut workload = of(50, 10.0, &servers);
    for subject in &mut workload.subjects {
        subject.total += 288.93 * subject.dependent();
    }
    let unfit = fit::factors(std::slice::from_ref(&workload)).unwrap_err();
    assert!(
        matches!(unfit, fit::Unfit::NoPrice { factor, .. } if (factor - 289.93).abs() < 0.01),
        "{unfit:?}"
    );
    let model =
        Model { costs: round_costs(), workloads: vec![workload.clone()], checks: Vec::new() };
    let (sheet, json) = (sheet(&model), json(&model));
    let (text, page) = (text(&sheet, WIDE), html(&sheet));
    assert!(
        text.contains("fitted: withheld: ") && text.contains("290 times its measured price"),
        "{text}"
    );
    assert!(!text.contains("prices multiplied"), "{text}");
    assert!(json["fitted_factors"].is_null() && page.contains("withheld here"), "{json}");
    // Where one architecture differs from itself as much as from the others, nothing is fitted.
    workload.noise = Some(2.0);
    assert_eq!(fit::factors(&[workload]), Err(fit::Unfit::Noise));
    assert_eq!(fit::factors(&[]), Err(fit::Unfit::Few));
}

#[test]
fn reasons_name_the_term_its_share_and_its_count() {
    let workload = workload();
    let [epoll, fork, threads] = &workload.subjects[..] else { panic!() };
    assert_eq!(
        sentences(threads)[0],
        "creation is 41 % of threads' time per request here (8.0 µs of 19.5 µs; 1.00 threads)"
    );
    let why = difference(epoll, fork).unwrap();
    assert!(
        why.contains("79.9 µs more for creation (1.00 processes; under epoll: 1.00 tasks)"),
        "{why}"
    );
    assert_eq!(difference(fork, epoll), None);
}

#[test]
fn text_page_and_json_tell_the_same() {
    let known = [of(50, 10.0, &[]), of(50, 10.0, &[])];
    assert_eq!(predict(&known, 7, &round_costs()), Ok(Vec::new()));
    let mut workload = workload();
    workload.missing.push(("handwritten".into(), "it counts nothing".into()));
    let checks = vec![Check {
        workload: "http".into(),
        architecture: "epoll".into(),
        connections: 200,
        predicted: Some(20.0),
        measured: Some(16.0),
    }];
    let model = Model { costs: round_costs(), workloads: vec![workload], checks };
    let (sheet, json) = (sheet(&model), json(&model));
    let (text, page) = (text(&sheet, WIDE), html(&sheet));
    for word in ["handwritten", "+25.0 %", "kernel switches"] {
        assert!(text.contains(word) && page.contains(word), "{word}: {text}");
    }
    assert!(text.contains("50,000"), "{text}");
    assert_eq!(json["workloads"][0]["architectures"][2]["counts_per_request"]["threads"], 1.0);
    assert_eq!(json["workloads"][0]["coefficients"]["with"]["helpers"], 0.0);
    assert_eq!(json["predictions"][0]["error"], 0.25);
}
