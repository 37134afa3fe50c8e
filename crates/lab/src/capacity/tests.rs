//! Known answers, and properties that hold for any results.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::forms::{self, LEAST, Prediction, processor_time};
use super::limits::{self, Kind, Limit};
use super::points::{Point, last_two};
use super::*;
use crate::ask::footprint::Footprint;
use crate::record::design::tests::design;
use crate::record::{Carrier, Constraints, Machine, UnitCosts, World};
use crate::statistics::{Estimate, Interval};
use crate::tell::answers::capacity::sheet;
use crate::tell::render::html::html;
use crate::tell::render::text::{TERMINAL, text};

fn point(connections: usize, us: f64) -> Point {
    Point {
        connections,
        served: connections as f64,
        open: Some(connections as f64),
        processor_time: Estimate { value: us, interval: None },
        memory: 1e6 + 1e3 * connections as f64,
    }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs().max(1.0)
}

#[test]
fn forms_have_known_answers() {
    let long = processor_time(&[point(100, 60.0), point(1000, 62.0)], 10_000.0).unwrap();
    assert!(near(long.constant, 62.0) && near(long.logarithmic, 64.0), "{long:?}");
    assert!(near(long.value, 63.0), "{long:?}");
    assert!(near(long.interval.low, 63.0 * 0.9) && near(long.interval.high, 63.0 * 1.1));
    assert!(near(long.spread(), 2.0 / 63.0) && !long.is_wide());
    // A short request meets cache misses: at 16,000 connections 1.5 µs, and 2 at most.
    let short = processor_time(&[point(100, 4.0), point(1000, 4.0)], 16_000.0).unwrap();
    assert!(near(short.value, 5.5) && near(short.interval.high, 5.5 * 1.25), "{short:?}");
    assert!(near(short.interval.low, 4.0), "{short:?}");
    // The prediction adds no cache misses before 4,000.
    let nearer = processor_time(&[point(100, 4.0), point(1000, 4.0)], 4000.0).unwrap();
    assert!(near(nearer.value, 4.0), "{nearer:?}");
}

#[test]
fn the_interval_is_no_narrower_than_the_measurement() {
    let mut last = point(1000, 100.0);
    last.processor_time.interval = Some(Interval { low: 70.0, high: 150.0 });
    let predicted = processor_time(&[point(100, 100.0), last], 10_000.0).unwrap();
    assert_eq!(predicted.interval, Interval { low: 70.0, high: 150.0 });
}

#[test]
fn forms_that_differ_call_for_a_measurement() {
    let predicted = processor_time(&[point(100, 10.0), point(1000, 20.0)], 10_000.0).unwrap();
    assert!(near(predicted.logarithmic, 30.0) && predicted.is_wide(), "{predicted:?}");
}

#[test]
fn connections_that_nothing_serves_cost_nothing() {
    let mut last = point(1000, 18.0);
    last.served = 650.0;
    let predicted = processor_time(&[point(100, 9.0), last], 10_000.0).unwrap();
    assert!(near(predicted.value, 18.0), "{predicted:?}");
    assert!(predicted.interval.contains(27.0), "{predicted:?}");
}

#[test]
fn points_that_are_close_together_have_no_slope() {
    let points = [point(100, 60.0), point(900, 61.0), point(1000, 70.0)];
    let (before, last) = last_two(&points).unwrap();
    assert_eq!((before.connections, last.connections), (100, 1000));
    assert!(last_two(&points[1..]).is_none());
    assert!(processor_time(&points[1..], 1e4).unwrap_err().to_string().contains("one number"));
    assert!(processor_time(&[], 1e4).unwrap_err().to_string().contains("no sound cell"));
}

#[test]
fn memory_is_a_line_over_what_is_open_at_the_server() {
    let points = [point(100, 1.0), point(1000, 1.0)];
    let found = memory::predict(&design(), &points, None, 15_000.0).unwrap();
    assert!(near(found.bytes, 1e6 + 15e6) && near(found.bytes_per_connection, 1e3), "{found:?}");
    assert!(near(found.base, 1e6) && found.is_open_known, "{found:?}");
    // A server that opened 100 connections for 1,000 clients opens 100 for 15,000 clients.
    let full = |connections| Point { open: Some(100.0), ..point(connections, 1.0) };
    let full = memory::predict(&design(), &[full(100), full(1000)], None, 15_000.0).unwrap();
    assert!(near(full.open, 100.0) && near(full.bytes, 2e6), "{full:?}");
    // Older results lack this number, so the architecture's declaration replaces it.
    let unsaid = points.clone().map(|point| Point { open: None, ..point });
    let workers = architecture(Footprint { accepted: Some(150), ..Footprint::default() });
    let found = memory::predict(&design(), &unsaid, Some(&workers), 15_000.0).unwrap();
    assert!(near(found.open, 150.0) && !found.is_open_known, "{found:?}");
    // Connections that wait for a worker take no memory.
    let pool = Architecture { workers: Some(120), ..architecture(Footprint::default()) };
    let found = memory::predict(&design(), &points, Some(&pool), 15_000.0).unwrap();
    assert!(near(found.open, 120.0), "{found:?}");
    let close = Design { keep_alive: false, ..design() };
    assert!(
        memory::predict(&close, &points, None, 1e4)
            .unwrap_err()
            .to_string()
            .contains("come and go")
    );
}

#[test]
fn processors_and_hosts_are_those_of_the_rate() {
    let time = Prediction {
        connections: 1.0,
        value: 70.0,
        interval: Interval { low: 63.0, high: 77.0 },
        constant: 70.0,
        logarithmic: 70.0,
    };
    let question =
        Question { rate: Some(1e6), hosts: Some(2), utilisation: 0.7, ..Question::of(15_000) };
    let need = hosts::need(&time, &question, 50).unwrap();
    assert!(near(need.processors, 100.0) && near(need.interval.high, 110.0), "{need:?}");
    assert_eq!(need.hosts, [2.0, 2.0, 3.0]);
    let [low, value, high] = need.rate_of_hosts.unwrap();
    assert!(near(value, 1e6) && low < 1e6 && high > 1e6, "{need:?}");
    assert_eq!(hosts::need(&time, &Question::of(15_000), 50), None);
}

fn architecture(footprint: Footprint) -> Architecture {
    Architecture {
        carrier: Carrier {
            world: Some(World::Block),
            poller: None,
            looks_at_all: false,
            processes: footprint.processes > 0,
            beside_others: true,
            holds: None,
            foreign: None,
        },
        unavailable: None,
        degraded: None,
        workers: None,
        max_connections: usize::MAX,
        footprint,
        server_arguments: Vec::new(),
    }
}

/// Results of a machine as the reference runs had it.
fn heading() -> Heading {
    let settings = [
        ("kernel.pid_max", "32768"),
        ("net.core.somaxconn", "4096"),
        ("net.ipv4.ip_local_port_range", "32768 60999"),
        ("open files (hard limit)", "20000"),
        ("vm.max_map_count", "65530"),
    ];
    Heading {
        version: crate::record::VERSION,
        duality: String::new(),
        plan: None,
        command: Vec::new(),
        started_at: String::new(),
        design: design(),
        machine: Machine {
            kernel: "Linux 6.18.44-fc x86_64".into(),
            settings: settings.map(|(name, value)| (name.into(), value.into())).into(),
            ..Machine::default()
        },
        hosts: BTreeMap::new(),
        constraints: Constraints::default(),
        current: None,
        margin: None,
        unit_costs: UnitCosts::default(),
    }
}

fn limits_of(heading: &Heading, architecture: &Architecture) -> Vec<(Kind, u64)> {
    let found = limits::of_server(heading, architecture, |descriptors| descriptors - 1000);
    found.iter().map(|Limit { kind, connections }| (*kind, *connections)).collect()
}

#[test]
fn limits_are_arithmetic() {
    let found = |footprint| limits_of(&heading(), &architecture(footprint));
    let state = Footprint::default();
    assert_eq!(found(state), [(Kind::Descriptors, 19_000)]);
    let thread = Footprint { threads: 1, mappings: 2, reserved_mappings: 100, ..state };
    let (ids, mappings) = ((Kind::ProcessIds, 32_468), (Kind::Mappings, 32_715));
    assert_eq!(found(thread), [(Kind::Descriptors, 19_000), ids, mappings]);
    // Each process has its own descriptors.
    assert_eq!(found(Footprint { processes: 1, ..state }), [ids]);
    // Guards that are marks take no mappings. On an older kernel, guards take mappings.
    let stack = Footprint {
        mappings: 2,
        reserved_mappings: 4096,
        no_mappings_from: Some((6, 13)),
        descriptors: Some(100_000),
        ..state
    };
    assert_eq!(found(stack), [(Kind::Descriptors, 99_000)]);
    let mut older = heading();
    older.machine.kernel = "Linux 6.8.0 x86_64".into();
    let found_there = limits_of(&older, &architecture(stack));
    assert_eq!(found_there, [(Kind::Mappings, 30_717), (Kind::Descriptors, 99_000)]);
    // The kernel's queue holds as many connections as it allows, and one more. Workers run out
    // first. Descriptors run out only where more connections are accepted.
    let of_workers = |accepted| {
        let workers = Footprint { accepted: Some(accepted), backlog: 5000, ..state };
        let pool = Architecture { workers: Some(accepted), ..architecture(workers) };
        limits_of(&heading(), &pool)
    };
    assert_eq!(of_workers(100), [(Kind::Workers, 100), (Kind::AcceptQueue, 4197)]);
    let all = [(Kind::Descriptors, 19_000), (Kind::Workers, 20_000), (Kind::AcceptQueue, 24_097)];
    assert_eq!(of_workers(20_000), all);
}

#[test]
fn a_machine_that_says_nothing_limits_nothing() {
    let silent = Heading { machine: Machine::default(), ..heading() };
    assert_eq!(limits_of(&silent, &architecture(Footprint::default())), []);
    assert_eq!(limits::fit(&[]), f64::INFINITY);
    let mut odd = heading();
    odd.machine.settings.insert("net.ipv4.ip_local_port_range".into(), "9 3".into());
    assert!(limits::of_load(&odd, 100).is_empty());
}

#[test]
fn load_is_limited_by_ports_and_descriptors() {
    let kinds = |connections| -> Vec<Kind> {
        limits::of_load(&heading(), connections).iter().map(|limit| limit.kind).collect()
    };
    assert_eq!(kinds(15_000), []);
    assert_eq!(kinds(25_000), [Kind::Descriptors]);
    assert_eq!(kinds(30_000), [Kind::Ports, Kind::Descriptors]);
}

#[test]
fn the_command_to_measure_is_the_one_that_was_given() {
    let with = |words: &str| Heading {
        command: words.split(' ').map(str::to_owned).collect(),
        ..heading()
    };
    let command =
        |heading: &Heading, names: &[&str]| command::to_measure(heading, names, 15_000).join(" ");
    let given =
        with("/tmp/duality compare plan.toml --out a --resume --concurrency=1,2 --repeats 3");
    assert_eq!(
        command(&given, &["epoll"]),
        "duality compare plan.toml --repeats 3 --architectures epoll --concurrency 100,15000 \
         --out capacity-15000"
    );
    // Peers have no flag of their own in the command.
    let peers = with("duality compare --peers nginx -- http");
    assert_eq!(
        command(&peers, &["nginx"]),
        "duality compare --peers nginx --concurrency 100,15000 --out capacity-15000 -- http"
    );
    assert!(
        command(&heading(), &["epoll"]).starts_with("duality compare http --architectures epoll")
    );
}

/// A subject with these points, as if its results had been read.
fn capacity(points: Vec<Point>, connections: usize, rate: Option<f64>) -> Capacity {
    let question = Question { rate, ..Question::of(connections) };
    let name = "a name that is far too long for a table".to_owned();
    let measured = Measurements { subject: name, points, left_out: vec![10] };
    let subject = subject(&heading(), Err("no program"), &question, measured);
    Capacity { heading: heading(), question, subjects: vec![subject], load: Vec::new() }
}

#[test]
fn tables_have_80_columns() {
    let points = vec![point(100, 10.0), point(1000, 20.0)];
    let answer = text(&sheet(&[capacity(points, 1_000_000, Some(1e9))]), TERMINAL);
    // The test ignores line breaks.
    let words = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    for phrase in ["Measure instead of predicting", "left out", "at 10 connections"] {
        assert!(words.contains(phrase), "{phrase}: {answer}");
    }
    for line in answer.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn the_page_shows_measured_and_predicted_with_a_band() {
    let points = vec![point(100, 10.0), point(1000, 12.0)];
    let page = html(&sheet(&[capacity(points, 15_000, None)]));
    assert_eq!(page.matches("class=\"band\"").count(), 2, "processor time and memory");
    assert!(page.contains(">predicted<") && page.contains(">measured<"));
}

/// Two points, at most 10,000 connections.
fn pair() -> impl Strategy<Value = [Point; 2]> {
    let times = (0.1..5000.0f64, 0.1..5000.0f64);
    (1..1000usize, 2..10usize, times, 0.0..1.0f64).prop_map(|(from, times, (one, other), share)| {
        let mut last = point(from * times, other);
        last.served = share * last.connections as f64;
        [point(from, one), last]
    })
}

proptest! {
    #[test]
    fn the_interval_has_both_forms_and_the_prediction(points in pair(), times in 1.0..1e6f64) {
        let at = points[1].connections as f64 * times;
        let predicted = processor_time(&points, at).unwrap();
        let Prediction { value, interval, constant, logarithmic, .. } = predicted;
        prop_assert!(interval.contains(value), "{predicted:?}");
        prop_assert!(interval.contains(constant), "{predicted:?}");
        prop_assert!(interval.contains(logarithmic), "{predicted:?}");
        let least = if constant >= forms::LONG_US { LEAST[0] } else { LEAST[1] };
        prop_assert!(interval.low <= value * (1.0 - least) && interval.low >= 0.0);
        prop_assert!(interval.high >= value * (1.0 + least) * (1.0 - 1e-12));
    }

    #[test]
    fn what_grows_goes_on_growing(points in pair(), near in 1.0..1e4f64, farther in 1.0..1e4f64) {
        let last = points[1].connections as f64;
        let one = processor_time(&points, last * near).unwrap();
        let other = processor_time(&points, last * near * farther).unwrap();
        if points[1].processor_time.value >= points[0].processor_time.value {
            prop_assert!(other.value >= one.value * (1.0 - 1e-9), "{one:?} {other:?}");
        }
        prop_assert!(other.interval.high >= one.interval.high * (1.0 - 1e-9)
            || points[1].processor_time.value < points[0].processor_time.value);
    }

    #[test]
    fn no_finite_number_is_too_odd(
        connections in prop::collection::vec(1..usize::MAX / 4, 0..4),
        numbers in prop::collection::vec(any::<f64>().prop_filter("finite", |it| it.is_finite()), 12),
        asked in 1..usize::MAX,
        rate in prop::option::of(1e-3..1e15f64),
    ) {
        let mut connections = connections;
        connections.sort_unstable();
        connections.dedup();
        let points: Vec<Point> = connections
            .iter()
            .zip(numbers.chunks(3))
            .map(|(&connections, of)| Point {
                served: of[1],
                memory: of[2],
                ..point(connections, of[0].abs())
            })
            .collect();
        let capacity = capacity(points, asked, rate);
        json(std::slice::from_ref(&capacity));
        let sheet = sheet(&[capacity]);
        text(&sheet, TERMINAL);
        html(&sheet);
    }

    #[test]
    fn more_of_everything_never_lowers_a_limit(
        settings in prop::collection::vec(0..1u64 << 40, 5),
        raised in 0..5usize,
        by in 0..1u64 << 40,
        threads in 0..3usize,
        mappings in 0..3usize,
    ) {
        let names = [
            "kernel.pid_max",
            "net.core.somaxconn",
            "open files (hard limit)",
            "vm.max_map_count",
            "kernel.threads-max",
        ];
        let first = |settings: &[u64]| {
            let settings: BTreeMap<String, String> = names
                .iter()
                .zip(settings)
                .map(|(name, value)| ((*name).to_owned(), value.to_string()))
                .collect();
            let machine = Machine { settings, ..Machine::default() };
            let heading = Heading { machine, ..heading() };
            let footprint = Footprint { threads, mappings, backlog: 4096, ..Footprint::default() };
            let found = limits::of_server(&heading, &architecture(footprint), |limit| limit);
            found.first().map(|limit| limit.connections)
        };
        let before = first(&settings);
        let mut more = settings.clone();
        more[raised] += by;
        prop_assert!(first(&more) >= before);
    }
}
