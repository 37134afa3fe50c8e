//! Laws that each model must keep, whatever the prices are.

use std::time::Duration;

use duality_architectures::{Needs, Served};
use duality_services::{Setup, find};

use super::*;
use crate::decisions::Random;

fn served(service: &str) -> Served {
    let entry = find(service).unwrap();
    Served::new(entry.name, Needs::ALL, (entry.open)(&Setup::default()).unwrap())
}

fn run(service: &str, question: &Question) -> Figures {
    let exchange = Exchange::of(service).unwrap();
    figures(question, &served(service), &exchange).unwrap()
}

/// Every price is another one.
const PRICES: Prices = Prices {
    turn: 50.0,
    start: 20_000.0,
    attempt: 120.0,
    in_vain: 300.0,
    registration: 700.0,
    round: 400.0,
    event: 80.0,
    rest: 5_500.0,
    switch: 2_300.0,
    wake: 0.0,
    work: 4_000.0,
};

const QUESTION: Question = Question {
    layout: Layout::Loops,
    prices: PRICES,
    hosts: 1,
    processors: 1,
    connections: 1,
    rate: None,
    client: 0.0,
    latency: Duration::from_micros(50),
    window: Duration::from_millis(20),
    seed: 0,
};

const LAYOUTS: [Layout; 2] = [Layout::Loops, Layout::Threads { places: usize::MAX }];

fn is_near(one: f64, other: f64, share: f64) -> bool {
    (one - other).abs() <= share * other.abs()
}

/// Pollaczek and Khinchine: with service times that are all alike, a request waits ρ/2(1−ρ) of them
/// on average.
#[test]
fn a_queue_before_one_processor_is_as_long_as_the_formula_says() {
    let prices = Prices { work: 10_000.0, ..Prices::default() };
    for layout in LAYOUTS {
        for load in [0.3, 0.6] {
            let question = Question {
                layout,
                prices,
                connections: 300,
                rate: Some(load * 1e5),
                window: Duration::from_secs(1),
                ..QUESTION
            };
            let figures = run("echo", &question);
            let expected = 10.0 * (1.0 + load / 2.0 / (1.0 - load));
            let stay = figures.at_server_us;
            assert!(is_near(stay, expected, 0.05), "{layout:?} {load}: {stay} not {expected}");
            assert!(is_near(figures.busy, load, 0.05), "{layout:?} {load}: {}", figures.busy);
        }
    }
}

#[test]
fn alone_a_request_takes_its_operations_and_the_way() {
    let sum = |parts: &[f64]| 100.0 + parts.iter().sum::<f64>() / 1e3;
    let Prices { turn, attempt, round, event, rest, work, .. } = PRICES;
    // A read and a write. What would block is not attempted, since the read took all there was.
    let of_a_loop = sum(&[rest, round, event, turn, 2.0 * attempt, work]);
    let of_a_thread = sum(&[rest, turn, 2.0 * attempt, work]);
    for (layout, expected) in LAYOUTS.into_iter().zip([of_a_loop, of_a_thread]) {
        for service in ["echo", "http", "quote"] {
            let figures = run(service, &Question { layout, ..QUESTION });
            assert!(is_near(figures.p50_us, expected, 0.002), "{service} {layout:?}: {figures:?}");
            assert!(is_near(figures.p99_us, expected, 0.002), "{service} {layout:?}: {figures:?}");
        }
    }
}

/// A question about anything.
fn drawn(random: &mut Random) -> Question {
    let mut draw = |bound: u64| random.next() % bound;
    let layout = match draw(3) {
        0 => Layout::Threads { places: 1 + draw(50) as usize },
        1 => LAYOUTS[1],
        _ => LAYOUTS[0],
    };
    let prices = Prices {
        turn: draw(500) as f64,
        attempt: draw(500) as f64,
        rest: draw(10_000) as f64,
        switch: draw(5_000) as f64,
        wake: draw(5_000) as f64,
        work: 500.0 + draw(20_000) as f64,
        ..PRICES
    };
    Question {
        layout,
        prices,
        hosts: 1 + draw(3) as usize,
        processors: 1 + draw(4) as usize,
        connections: 1 + draw(100) as usize,
        rate: (draw(2) == 0).then(|| 1_000.0 + draw(100_000) as f64),
        client: [0.0, 1_000.0 + draw(10_000) as f64][draw(2) as usize],
        latency: Duration::from_nanos(draw(200_000)),
        window: Duration::from_millis(10),
        seed: draw(1_000),
    }
}

/// Little: there are as many requests in service as come in the time that one takes.
#[test]
fn any_model_keeps_the_laws() {
    let mut random = Random::new(5);
    for number in 0..40 {
        let question = drawn(&mut random);
        let service = ["echo", "http", "quote", "time"][number % 4];
        let figures = run(service, &question);
        let told = || format!("{number} {service} {question:?} {figures:?}");
        assert!(figures.busy <= 1.0, "{}", told());
        assert!(figures.p50_us <= figures.p99_us, "{}", told());
        assert!(figures.waited_us <= figures.at_server_us, "{}", told());
        if question.rate.is_none() {
            let served = figures.served.min(question.connections) as f64;
            assert!(figures.in_service <= question.connections as f64 + 1e-6, "{}", told());
            // At the ends of the window, each client has a request that counts in part.
            let little = figures.requests_per_second * figures.mean_us / 1e6;
            let ends = 2.0 * served / figures.requests as f64;
            let waiting = figures.in_service - little;
            let not_served = question.connections as f64 - served;
            assert!(waiting.abs() <= (ends + 0.01) * served + not_served, "{}", told());
        }
    }
}

#[test]
fn more_processors_never_lower_the_rate() {
    let window = Duration::from_millis(4);
    for layout in LAYOUTS {
        let mut before = 0.0;
        for processors in [1, 2, 4, 8] {
            let question = Question { layout, processors, connections: 200, window, ..QUESTION };
            let rate = run("http", &question).requests_per_second;
            assert!(rate >= 0.99 * before, "{layout:?} on {processors}: {rate}");
            before = rate;
        }
    }
}

#[test]
fn one_seed_has_one_answer() {
    let ask = |seed| {
        let rate = Some(50_000.0);
        run("http", &Question { seed, rate, processors: 4, connections: 50, ..QUESTION })
    };
    assert_eq!(ask(7), ask(7));
    assert_ne!(ask(7), ask(8));
}

#[test]
fn places_bound_how_many_are_served_at_a_time() {
    let layout = Layout::Threads { places: 4 };
    let of = |service| run(service, &Question { layout, connections: 10, ..QUESTION });
    let kept = of("http");
    assert_eq!(kept.served, 4, "a connection that stays keeps its place: {kept:?}");
    let short = of("time");
    assert_eq!(short.served, 10, "{short:?}");
    let start = PRICES.start / 1e3;
    assert!(short.cpu_us_per_request >= start, "each has a start: {short:?}");
}

/// A server that closes a connection now and then has its client connect again. http does so after
/// a thousand requests.
#[test]
fn a_closed_connection_is_opened_again() {
    let prices = Prices { work: 100.0, ..Prices::default() };
    let window = Duration::from_micros(300);
    let latency = Duration::ZERO;
    let figures = run("http", &Question { prices, window, latency, ..QUESTION });
    assert!(figures.requests > 2_500, "{figures:?}");
    assert!(is_near(figures.p50_us, 0.1, 0.01), "{figures:?}");
}

#[test]
fn a_reply_that_no_client_understands_is_told() {
    let exchange = Exchange::new(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 3);
    let why = figures(&QUESTION, &served("http"), &exchange).unwrap_err();
    assert!(why.starts_with("the clients do not understand this reply: \"HTTP/1.1 200"), "{why}");
}
