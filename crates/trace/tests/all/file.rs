//! Traces as files: a trace that was written can be read back, and other files are refused in one
//! line.

use std::io::{Read, Write};
use std::time::Duration;

use duality_trace::file::{Fault, decode, encode, read};
use duality_trace::{Class, Connection, Head, Inferred, Method, Sizes, Step, Trace};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;

fn class(number: u64) -> Class {
    let method = [Method::Get, Method::Head, Method::Post, Method::Other][number as usize % 4];
    let path = number.is_multiple_of(3).then(|| format!("/a \"{number}\"?ü"));
    Class { method, request: number % 5, reply: number * 100, status: 2, count: 0, path }
}

prop_compose! {
    fn step()(think in 0u64..1 << 40, class in 0u16..20) -> Step {
        Step { think: Duration::from_micros(think), class }
    }
}

prop_compose! {
    fn connection()(
        start in 0u64..1 << 42,
        rate in proptest::option::of(1u64..1 << 40),
        steps in proptest::collection::vec(step(), 0..8),
        open_after in 0u64..1 << 40,
    ) -> Connection {
        let [start, open_after] = [start, open_after].map(Duration::from_micros);
        Connection { start, rate, steps, open_after }
    }
}

prop_compose! {
    fn trace()(
        connections in proptest::collection::vec(connection(), 0..20),
        tick in prop_oneof![Just(1u64), Just(100), Just(1000)],
        began in proptest::option::of(0u64..1 << 33),
        is_wire: bool,
    ) -> Trace {
        let head = Head {
            tick: Duration::from_micros(tick),
            began,
            source: "proptest".to_owned(),
            sizes: if is_wire { Sizes::Wire } else { Sizes::Body },
            inferred: vec![Inferred {
                what: "a".to_owned(),
                value: "b\n".to_owned(),
                why: "c".to_owned(),
            }],
            warnings: vec!["one".to_owned()],
            classes: (0..20).map(class).collect(),
            ..Head::default()
        };
        Trace::new(head, connections)
    }
}

fn encoded(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(trace, &mut bytes).unwrap();
    bytes
}

/// The text of a trace.
fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_read_back(trace in trace()) {
        let mut bytes = Vec::new();
        let checksum = encode(&trace, &mut bytes).unwrap();
        let mut back = decode(&bytes[..]).unwrap();
        prop_assert_eq!(&back.head.checksum, &checksum);
        back.head.checksum.clear();
        prop_assert_eq!(&back, &trace);
        // Without gzip, too.
        prop_assert_eq!(decode(text(&bytes).as_bytes()).unwrap().head.checksum, checksum);
    }

    #[test]
    fn a_trace_keeps_its_promises(trace in trace()) {
        prop_assert!(trace.connections.is_sorted_by_key(|connection| connection.start));
        prop_assert!(trace.iter().all(|connection| connection.steps[0].think.is_zero()));
        let requests: usize = trace.iter().map(|connection| connection.steps.len()).sum();
        prop_assert_eq!(trace.requests(), requests as u64);
        let counted: u64 = trace.head.classes.iter().map(|class| class.count).sum();
        prop_assert_eq!(counted, requests as u64);
        prop_assert!(trace.head.classes.is_sorted_by_key(|class| std::cmp::Reverse(class.count)));
        prop_assert_eq!(trace.request_times().len(), requests);
    }

    #[test]
    fn a_changed_byte_is_found(trace in trace(), place: prop::sample::Index, mask in 1u8..) {
        let mut bytes = text(&encoded(&trace)).into_bytes();
        let place = place.index(bytes.len());
        bytes[place] ^= mask;
        let Err(fault) = decode(&bytes[..]) else { return Err(TestCaseError::fail("accepted")) };
        prop_assert!(!fault.to_string().contains('\n'), "{}", fault);
    }

    #[test]
    fn a_trace_that_was_cut_is_refused(trace in trace(), place: prop::sample::Index) {
        let bytes = encoded(&trace);
        let text = text(&bytes);
        prop_assert!(decode(&bytes[..place.index(bytes.len())]).is_err());
        prop_assert!(decode(&text.as_bytes()[..place.index(text.len())]).is_err());
    }
}

const HEAD: &str = r#"{"duality_trace":1,"requests":3,"connections":2,"length_us":9000,"tick_us":1000,"resolution_us":1000,"source":"x","sizes":"body","classes":[{"method":"GET","reply":10,"status":2,"count":2},{"method":"HEAD","reply":0,"status":3,"count":1}]}"#;
const LINES: &str = "0@500 0 2:1 +7\n3 0";

/// A file of this head and these lines, with its checksum.
fn sealed(head: &str, lines: &str) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    let text = format!("{head}\n{lines}\n");
    let digest = Sha256::digest(&text);
    let checksum: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{text}sha256 {checksum}\n").into_bytes()
}

fn fault(bytes: &[u8]) -> Fault {
    let fault = decode(bytes).expect_err("it is no trace");
    assert!(!fault.to_string().contains('\n'), "{fault}");
    fault
}

#[test]
fn a_file_is_what_the_page_says() {
    let trace = decode(&sealed(HEAD, LINES)[..]).unwrap();
    let [one, other] = &trace.connections[..] else { panic!("two connections") };
    let step = |think, class| Step { think: Duration::from_millis(think), class };
    assert_eq!(one.steps, [step(0, 0), step(2, 1)]);
    assert_eq!((one.rate, one.open_after), (Some(500), Duration::from_millis(7)));
    assert_eq!((other.start, other.end()), (Duration::from_millis(3), Duration::from_millis(3)));
    assert_eq!(trace.open_at(Duration::from_millis(1)).count(), 1);
    assert_eq!(trace.open_at(Duration::from_millis(9)).count(), 0);
    assert_eq!(trace.class(one.steps[1]).method, Method::Head);
}

#[test]
fn lines_that_cannot_be_are_named_with_their_number() {
    for (lines, number, told) in [
        ("-5 0 2:1\n3 0", 2, "a time is negative: '-5'"),
        ("0 0 -2:1\n3 0", 2, "a time is negative: '-2'"),
        ("0 0 2:1 +-7\n3 0", 2, "a time is negative"),
        ("0 0 2:1\n3 2", 3, "class 2, and the head has 2"),
        ("0 0 2:1\n3", 3, "a connection without a request"),
        ("0 0 2:1\n3 x", 3, "a class is no whole number: 'x'"),
        ("0 0 2:1\n3 0 4", 3, "'4' is no request"),
        ("0 0 2:1\n3 0 +1 +2", 3, "something follows"),
        ("0 0 2:1\n3@0 0", 3, "a rate of no bytes"),
        ("0 0 2:1\n99999999999999999999 0", 3, "a time is no whole number"),
        ("0 0 2:1\n999999999999999 0", 3, "more than 100 years"),
        ("0 0 2:1\n3 0\n0 0", 4, "more than 2 connections"),
        ("0 0 2:1\n3 0 1:0", 3, "more than 3 requests"),
        ("0 0 2:0\n3 0", 4, "the counts of the head"),
        ("0 0 2:1\n30 0", 4, "starts after the trace's end"),
    ] {
        match fault(&sealed(HEAD, lines)) {
            Fault::Line { line, what } => {
                assert_eq!(line, number, "{lines}: {what}");
                assert!(what.contains(told), "{lines}: {what}");
            }
            fault => panic!("{lines}: {fault}"),
        }
    }
}

#[test]
fn heads_that_cannot_be_are_refused() {
    let with = |from: &str, to: &str| fault(&sealed(&HEAD.replacen(from, to, 1), LINES));
    let other = with("\"duality_trace\":1", "\"duality_trace\":2");
    assert!(matches!(other, Fault::Version(2)), "{other}");
    assert!(other.to_string().contains("version 2") && other.to_string().contains("version 1"));
    assert!(matches!(with("\"requests\":3", "\"requests\":300000000"), Fault::TooLarge { .. }));
    for (from, to) in [
        ("\"tick_us\":1000", "\"tick_us\":0"),
        ("\"length_us\":9000", "\"length_us\":-1"),
        ("\"length_us\":9000", "\"length_us\":18446744073709551615"),
        ("\"status\":2", "\"status\":6"),
        ("\"count\":2", "\"count\":18446744073709551615"),
        ("\"count\":2", "\"count\":7"),
        ("\"source\":\"x\",", ""),
    ] {
        assert!(matches!(with(from, to), Fault::Line { line: 1, .. }), "{from}");
    }
}

#[test]
fn what_is_no_trace_is_refused() {
    for bytes in [&b""[..], b"\n", b"hello", b"{}\n", b"\x00\xff\xfe\n", b"[1]\n", b"\x1f"] {
        assert!(matches!(fault(bytes), Fault::NotATrace), "{bytes:?}");
    }
    assert!(matches!(fault(b"\x1f\x8b\x08"), Fault::NotATrace | Fault::Truncated { .. }));
    let mut damaged = sealed(HEAD, LINES);
    let last = damaged.len() - 2;
    damaged[last] ^= 1;
    assert!(matches!(fault(&damaged), Fault::Checksum { line: 4 }));
    let mut longer = sealed(HEAD, LINES);
    longer.extend(b"0 0\n");
    assert!(matches!(fault(&longer), Fault::Line { line: 5, .. }));
    assert!(matches!(fault(format!("{HEAD}\n0 0 2:1\n").as_bytes()), Fault::Truncated { line: 3 }));
}

/// A file of some kilobytes must not unfold into gigabytes of memory.
#[test]
fn a_gigantic_file_is_refused_within_its_bounds() {
    let mut folded = GzEncoder::new(Vec::new(), Compression::fast());
    folded.write_all(b"{\"duality_trace\":1,").unwrap();
    for _ in 0..64 {
        folded.write_all(&[b' '; 1 << 20]).unwrap();
    }
    let folded = folded.finish().unwrap();
    assert!(folded.len() < 1 << 20);
    assert!(matches!(fault(&folded), Fault::NotATrace));
}

#[test]
fn an_error_names_the_file() {
    let folder = std::env::temp_dir();
    let error = read(&folder.join("no such trace")).unwrap_err().to_string();
    assert!(error.contains("no such trace: ") && !error.contains('\n'), "{error}");
}

/// Eight bytes a request are promised.
#[test]
fn a_request_takes_less_than_eight_bytes() {
    // Times without any pattern are the worst case.
    let mut random = 1u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let connections = (0..20_000).map(|_| Connection {
        start: Duration::from_millis(next(86_400_000)),
        steps: (0..1 + next(5))
            .map(|_| Step { think: Duration::from_millis(next(60_000)), class: next(200) as u16 })
            .collect(),
        open_after: Duration::from_secs(75),
        ..Connection::default()
    });
    let classes = (0..200).map(class).collect();
    let head = Head { tick: Duration::from_millis(1), classes, ..Head::default() };
    let trace = Trace::new(head, connections.collect());
    let bytes = encoded(&trace).len() as f64 / trace.requests() as f64;
    assert!(bytes < 8.0, "{bytes} bytes a request");
}
