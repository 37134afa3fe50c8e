//! Logs as servers write them, up to the trace: excerpts of real ones, and hostile ones.

use std::fmt::Write as _;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use duality_trace::readers::{Error, Format, Made, Rules, Stamp, make, make_of};
use duality_trace::{Method, Trace, file};
use flate2::Compression;
use flate2::write::GzEncoder;

fn log(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logs")).join(name)
}

fn from(name: &str, rules: &Rules) -> Made {
    make(&[log(name)], None, rules).unwrap()
}

fn of(text: &str) -> Result<Made, Error> {
    make_of(Cursor::new(text.to_owned()), "a.log", None, &Rules::default())
}

fn warns(trace: &Trace, of: &str) -> bool {
    trace.head.warnings.iter().any(|warning| warning.contains(of))
}

fn inferred(trace: &Trace, what: &str) -> String {
    let found = trace.head.inferred.iter().find(|inferred| inferred.what == what);
    found.map(|inferred| inferred.value.clone()).unwrap_or_default()
}

#[test]
fn nasa_has_a_connection_for_each_request() {
    let Made { trace, format, rejected } = from("nasa.log", &Rules::default());
    assert_eq!((format, rejected.count), (Format::Combined, 0));
    assert_eq!((trace.requests(), trace.head.connections), (300, 300));
    assert_eq!(trace.head.source, "common log");
    assert_eq!(trace.head.resolution, Duration::from_secs(1));
    assert!(trace.iter().all(|connection| connection.open_after.is_zero()));
    assert!(!inferred(&trace, "times").is_empty());
    assert!(inferred(&trace, "stamps").contains("the end"), "lines are in order");
    // Spread within the second: hardly two requests begin at the same millisecond.
    let times = trace.request_times();
    let twice = times.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(twice < 10, "{twice} of {}", times.len());
    assert!(warns(&trace, "not modified"));
}

/// nginx names the connection of each request: 138 of 138 are found, as counted by hand.
#[test]
fn nginx_tells_connections_and_think_times() {
    let Made { trace, format, rejected } = from("nginx.jsonl", &Rules::default());
    assert_eq!((format, rejected.count), (Format::Json, 0));
    assert_eq!((trace.requests(), trace.head.connections), (600, 138));
    let longest = trace.iter().map(|connection| connection.steps.len()).max();
    assert_eq!((longest, trace.head.resolution), (Some(12), Duration::from_millis(1)));
    assert!((trace.seconds() - 12.019).abs() < 0.002, "{}", trace.seconds());
    assert_eq!(trace.head.began, Some(1_795_593_284));
    assert!(inferred(&trace, "connections").is_empty());
    assert!(trace.head.classes.iter().all(|class| class.method == Method::Get));
}

#[test]
fn shuffled_minutes_are_said() {
    let Made { trace, rejected, .. } = from("shuffled-minutes.log", &Rules::default());
    assert_eq!((trace.requests(), rejected.count), (450, 0));
    assert!(warns(&trace, "minute 5 of their hour: these times are not those of arrivals"));
    assert!(warns(&trace, "earlier stamp than a line before"));
    assert_eq!(trace.head.source, "combined log");
    assert!(warns(&trace, "(206)"));
}

#[test]
fn keep_alive_decides_where_connections_are_not_told() {
    let connections = |seconds| {
        let rules = Rules { keep_alive: Duration::from_secs(seconds), ..Rules::default() };
        from("shuffled-minutes.log", &rules).trace.head.connections
    };
    let [none, few, more] = [0, 5, 75].map(connections);
    assert!(none == 450 && few < none && more < few, "{none} {few} {more}");
}

/// A day of clients, each with six connections at most.
#[test]
fn a_client_has_at_most_six_connections() {
    let mut text = String::new();
    for second in 0..10 {
        for request in 0..20 {
            let _ = writeln!(
                text,
                r#"192.0.2.1 - - [17/May/2015:10:05:{second:02} +0000] "GET /{request} HTTP/1.1" 200 9 "-" "a""#
            );
        }
    }
    let trace = of(&text).unwrap().trace;
    assert_eq!((trace.requests(), trace.head.connections), (200, 6));
    assert!(trace.iter().all(|connection| connection.open_after == Duration::from_secs(75)));
    assert!(warns(&trace, "it is a proxy"));
    let agents = text.replace("HTTP/1.1", "HTTP/2.0");
    assert_eq!(of(&agents).unwrap().trace.head.connections, 1);
}

#[test]
fn logs_in_any_order_and_compressed_are_one_trace() {
    let text = std::fs::read_to_string(log("nasa.log")).unwrap();
    let (early, late) = text.split_at(text.match_indices('\n').nth(150).unwrap().0 + 1);
    let folder = tempfile::tempdir().unwrap();
    let paths = ["access.log", "access.log.1.gz"].map(|name| folder.path().join(name));
    std::fs::write(&paths[0], late).unwrap();
    let mut folded = GzEncoder::new(Vec::new(), Compression::fast());
    folded.write_all(early.as_bytes()).unwrap();
    std::fs::write(&paths[1], folded.finish().unwrap()).unwrap();
    let whole = from("nasa.log", &Rules::default()).trace;
    assert_eq!(make(&paths, None, &Rules::default()).unwrap().trace, whole);
}

#[test]
fn lines_that_are_no_record_are_counted_and_shown() {
    let mut text = std::fs::read_to_string(log("nasa.log")).unwrap();
    text.insert_str(0, "# a comment\n\n");
    text.push_str("cut off in the mid\n\u{0}\u{1}\nlast");
    let Made { trace, rejected, .. } = of(&text).unwrap();
    assert_eq!((trace.requests(), rejected.count), (300, 4));
    assert_eq!(rejected.first[0], "a.log: line 1: no time in brackets");
    assert_eq!(rejected.first[1], "a.log: line 303: no time in brackets");
    assert!(warns(&trace, "lines that are no request, which are left out: 4"));
}

#[test]
fn what_is_no_log_is_refused_in_one_line() {
    for (text, told) in [
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("hello\n", "line 1: no time in brackets; no request was found"),
        ("\u{0}\u{1}\u{2}", "line 1"),
        ("{\"a\":1}\n", "line 1: no JSON with 'ts'"),
        ("{\"log\":{\"entries\":[{}]}}", "no HAR"),
        ("{\"log\":{\"entries\":[", "no HAR"),
        ("{\"log\":{}}", "no request"),
    ] {
        let error = of(text).expect_err(text).to_string();
        assert!(error.contains(told) && !error.contains('\n'), "{text:?}: {error}");
        assert!(error.starts_with("a.log"), "{error}");
    }
    let error = make(&[log("no.log")], None, &Rules::default()).unwrap_err().to_string();
    assert!(error.contains("no.log: No such file"), "{error}");
    let mixed = make(&[log("nasa.log"), log("nginx.jsonl")], None, &Rules::default());
    assert!(mixed.unwrap_err().is_misuse);
}

#[test]
fn gzip_that_is_cut_is_refused() {
    let mut folded = GzEncoder::new(Vec::new(), Compression::fast());
    folded.write_all(&std::fs::read(log("nasa.log")).unwrap()).unwrap();
    let mut folded = folded.finish().unwrap();
    folded.truncate(folded.len() / 2);
    let error = make_of(Cursor::new(folded), "a.gz", None, &Rules::default()).unwrap_err();
    assert!(error.to_string().starts_with("a.gz: "), "{error}");
}

/// A line without an end takes no memory.
#[test]
fn a_gigantic_line_is_one_that_is_no_record() {
    let line = std::io::repeat(b'x').take(200 << 20);
    let text = "\nc1 - - [01/Aug/1995:15:00:01 +0000] \"GET /a.gif HTTP/1.0\" 200 4179\n";
    let input = line.chain(Cursor::new(text));
    let Made { trace, rejected, .. } = make_of(input, "a.log", None, &Rules::default()).unwrap();
    assert_eq!((trace.requests(), rejected.count), (1, 1));
}

#[test]
fn a_million_connections_in_one_second_are_a_trace() {
    let line = "c1 - - [01/Aug/1995:15:00:01 +0000] \"GET /a.gif HTTP/1.0\" 200 4179\n";
    let count = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let input = Cursor::new(line.repeat(count));
    let trace = make_of(input, "a.log", None, &Rules::default()).unwrap().trace;
    assert_eq!(trace.head.connections, count as u64);
    assert!(trace.seconds() < 1.0);
    let mut bytes = Vec::new();
    file::encode(&trace, &mut bytes).unwrap();
    assert_eq!(file::decode(&bytes[..]).unwrap().requests(), count as u64);
}

#[test]
fn large_replies_are_capped() {
    let text = "c1 - - [01/Aug/1995:15:00:01 +0000] \"GET /a HTTP/1.0\" 200 67000000\n";
    let trace = of(text).unwrap().trace;
    assert_eq!(trace.head.classes[0].reply, 1 << 20);
    assert!(warns(&trace, "--max-size"));
}

#[test]
fn stamps_are_what_the_user_says() {
    let rules = Rules { stamp: Some(Stamp::Start), ..Rules::default() };
    assert!(inferred(&from("nasa.log", &rules).trace, "stamps").contains("begin"));
    // Lines out of order are those of Apache.
    let trace = from("shuffled-minutes.log", &Rules::default()).trace;
    assert!(inferred(&trace, "stamps").contains("begin"));
}

const SECRET: &str = r#"198.51.100.77 - alice [17/May/2015:10:05:03 +0000] "GET /very/private?token=tulip HTTP/1.1" 200 203023 "https://referrer.test/from" "Zeppelin/5.0""#;

/// Neither addresses nor users nor paths nor agents are in a trace, and paths only on request.
#[test]
fn a_trace_has_no_address_and_no_path() {
    let json = r#"{"ts":1795593284.041,"rt":0.002,"conn":770077,"n":1,"m":"GET","u":"/very/private?token=tulip","s":200,"b":64,"p":"HTTP/1.1"}"#;
    let caddy = r#"{"ts":1646861401.5,"request":{"remote_ip":"198.51.100.77","remote_port":"41342","proto":"HTTP/1.1","method":"GET","host":"referrer.test","uri":"/very/private?token=tulip","headers":{"User-Agent":["Zeppelin/5.0"]}},"bytes_read":0,"user_id":"alice","duration":0.001,"size":10900,"status":200}"#;
    let har = r#"{"log":{"entries":[{"startedDateTime":"2015-05-17T10:05:03Z","time":50,"connection":"41342","serverIPAddress":"198.51.100.77","request":{"method":"GET","url":"https://referrer.test/very/private?token=tulip","httpVersion":"HTTP/1.1","headers":[{"name":"User-Agent","value":"Zeppelin/5.0"}],"bodySize":0},"response":{"status":200,"bodySize":64,"content":{"size":64,"text":"alice"}},"timings":{"send":1,"wait":30,"receive":2}}]}}"#;
    for text in [SECRET, json, caddy, har] {
        for (paths, keeps_secrets) in [(false, false), (true, false), (true, true)] {
            let rules = Rules { paths, keeps_secrets, ..Rules::default() };
            let made = make_of(Cursor::new(text), "secret.log", None, &rules).unwrap();
            let mut bytes = Vec::new();
            file::encode(&made.trace, &mut bytes).unwrap();
            let mut told = String::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut told).unwrap();
            for secret in
                ["198.51", "alice", "referrer", "Zeppelin", "41342", "770077", "secret.log"]
            {
                assert!(!told.contains(secret), "{secret}: {told}");
            }
            for (path, is_kept) in [("very", paths), ("private", paths), ("tulip", keeps_secrets)] {
                assert_eq!(told.contains(path), is_kept, "{path}: {told}");
            }
        }
    }
}

#[test]
fn a_har_has_the_requests_of_one_host() {
    let entry = |host: &str, second: u32, status: u16, more: &str| {
        format!(
            r#"{{"startedDateTime":"2015-05-17T10:05:{second:02}.000+02:00","time":150,"connection":"7",{more}"request":{{"method":"GET","url":"http://{host}/","httpVersion":"HTTP/1.1","bodySize":0}},"response":{{"status":{status},"bodySize":-1,"content":{{"size":1000}}}},"timings":{{"blocked":100,"send":0,"wait":40,"receive":10}}}}"#
        )
    };
    let entries = [
        entry("a.test", 1, 200, ""),
        entry("b.test", 2, 200, ""),
        entry("a.test", 3, 200, ""),
        entry("a.test", 4, 0, ""),
        entry("a.test", 5, 200, r#""_fromCache":"disk","#),
    ];
    let text =
        format!("\u{feff}{{\"log\":{{\"version\":\"1.2\",\"entries\":[{}]}}}}", entries.join(","));
    let Made { trace, format, rejected } = of(&text).unwrap();
    assert_eq!((format, rejected.count), (Format::Har, 2));
    assert_eq!((trace.requests(), trace.head.connections), (2, 1));
    // From the end of the first reply, at 1.15 s, to the begin of the second request, at 3.1 s.
    assert_eq!(trace.connections[0].steps[1].think, Duration::from_millis(1_950));
    assert!(inferred(&trace, "host").contains("1 to others"));
    let rules = Rules { host: Some("b.test".to_owned()), ..Rules::default() };
    let other = make_of(Cursor::new(text), "a.har", None, &rules).unwrap().trace;
    assert_eq!((other.requests(), inferred(&other, "host")), (1, String::new()));
}
