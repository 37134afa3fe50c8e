//! Requests on a connection, heads and bodies, as the http service reads them.
//!
//! The requests do not depend on where the bytes are cut. An accepted head has exactly one framing.
//! Each request begins at the end of the previous request.

#![no_main]

use duality_fuzz::{bytewise, split};
use duality_services::fuzzing::http::{Ended, Heard, chunked, requests};
use libfuzzer_sys::fuzz_target;

/// The bounds are small, so that inputs reach them.
const HEAD: usize = 512;
const BODY: u64 = 256;

fuzz_target!(|bytes: &[u8]| {
    let heard = requests(&[bytes], HEAD, BODY);
    assert_eq!(heard, requests(&split(bytes), HEAD, BODY));
    assert_eq!(heard, requests(&bytewise(bytes), HEAD, BODY));

    let mut rest = bytes;
    let mut body = None;
    for heard in &heard {
        match (heard, body.take()) {
            (Heard::Head { bytes: head, target, length }, None) => {
                assert!(head.len() <= HEAD && target.is_ascii());
                check_framing(head, *length);
                rest =
                    rest.strip_prefix(&head[..]).expect("a head is where the last request ended");
                body = Some(*length);
            }
            (Heard::Body(content), Some(Some(length))) => {
                assert_eq!(content.len() as u64, length);
                rest = rest.strip_prefix(&content[..]).expect("a body follows its head");
            }
            (Heard::Body(content), Some(None)) => match chunked(&[rest], BODY, BODY as usize) {
                Ended::Finished(taken, alone) if alone == *content => rest = &rest[taken..],
                other => panic!("alone, the body is {other:?}"),
            },
            (Heard::Refused(status), _) => assert!((400..=599).contains(status)),
            (heard, body) => panic!("{heard:?} with {body:?} due"),
        }
    }
});

/// Reads an accepted head as the simplest parser would. The service must read the same head.
fn check_framing(head: &[u8], length: Option<u64>) {
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| match line {
        [line @ .., b'\r'] => line,
        // The rest after the last LF.
        [] => line,
        _ => panic!("a line without CR"),
    });
    // RFC 9112, section 2.2, allows empty lines before a request.
    let request = lines.find(|line| !line.is_empty()).expect("a request line");
    let (mut hosts, mut lengths, mut codings) = (0, Vec::new(), Vec::new());
    for line in lines.take_while(|line| !line.is_empty()) {
        assert!(!matches!(line, [b' ' | b'\t', ..]), "a folded line");
        assert!(!line.contains(&b'\r') && !line.contains(&0));
        let colon = line.iter().position(|&byte| byte == b':').expect("a field has a colon");
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        match &name[..] {
            b"host" => hosts += 1,
            b"content-length" => lengths.push(value),
            b"transfer-encoding" => codings.push(value.to_ascii_lowercase()),
            _ => {}
        }
    }
    assert!(hosts == 1 || hosts == 0 && request.ends_with(b"HTTP/1.0"));
    match (&lengths[..], &codings[..], length) {
        ([], [], Some(0)) => {}
        ([value], [], Some(length)) => {
            let value = std::str::from_utf8(value).expect("digits");
            assert!(value.bytes().all(|byte| byte.is_ascii_digit()));
            assert_eq!(value.parse(), Ok(length));
        }
        ([], [coding], None) => assert_eq!(coding, b"chunked"),
        other => panic!("which framing is it? {other:?}"),
    }
}
