//! Captures of packets, up to the trace. The captures are seeds of the fuzz target: one connection
//! of two requests, over several links.

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use duality_trace::readers::{Format, Rules, make, make_of};
use duality_trace::{Method, Sizes};

fn capture(name: &str) -> Vec<u8> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/log_pcap"));
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn every_link_gives_the_same_trace() {
    for name in ["raw", "ethernet", "cooked", "pcapng"] {
        let made = make_of(Cursor::new(capture(name)), name, None, &Rules::default()).unwrap();
        assert_eq!((made.format, made.rejected.count), (Format::Pcap, 0), "{name}");
        let trace = made.trace;
        assert_eq!((trace.requests(), trace.head.connections), (2, 1), "{name}");
        assert_eq!(trace.head.sizes, Sizes::Wire);
        let connection = &trace.connections[0];
        // From the last byte of the reply at 400 µs to the request at 9,000 µs; closed at 9,900.
        assert_eq!(connection.steps[1].think, Duration::from_micros(8_600), "{name}");
        assert_eq!(connection.open_after, Duration::from_micros(400), "{name}");
        let class = trace.class(connection.steps[0]);
        assert_eq!((class.method, class.request, class.reply), (Method::Other, 76, 861), "{name}");
        assert_eq!(trace.head.began, Some(1_700_000_000));
    }
}

#[test]
fn a_capture_that_is_cut_or_damaged_is_refused_in_one_line() {
    for name in ["raw", "pcapng"] {
        let whole = capture(name);
        for end in 4..whole.len() {
            let cut = Cursor::new(whole[..end].to_vec());
            // Between two packets, a capture may end.
            if let Err(error) = make_of(cut, "a.pcap", None, &Rules::default()) {
                let error = error.to_string();
                assert!(error.starts_with("a.pcap") && !error.contains('\n'), "{end}: {error}");
            }
        }
    }
    let mut damaged = capture("raw");
    // The length of the first packet.
    damaged[32..36].fill(0xff);
    assert!(make_of(Cursor::new(damaged), "a.pcap", None, &Rules::default()).is_err());
}

#[test]
fn a_port_that_no_connection_has_leaves_nothing() {
    let rules = Rules { port: Some(81), ..Rules::default() };
    let error = make_of(Cursor::new(capture("raw")), "a.pcap", None, &rules).unwrap_err();
    assert!(error.to_string().contains("no request was found"), "{error}");
    assert!(make(&["no.pcap".into()], Some(Format::Pcap), &rules).is_err());
}
