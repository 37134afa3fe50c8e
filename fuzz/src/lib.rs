//! Code that the fuzz targets share: other cuts of the same bytes, and checks of traces.
//!
//! Each target is one file in `fuzz_targets/`, with readable seeds in `corpus/TARGET/` and a line
//! in `Cargo.toml`. `cargo xtask fuzz` and `cargo fuzz run TARGET` build and run the targets.

#![forbid(unsafe_code)]

use std::io::Cursor;

use duality_trace::readers::{Format, Rules, make_of};
use duality_trace::{Trace, file};

/// Cuts bytes into pieces as a network could. The bytes alone decide the places of the cuts. So a
/// seed is exactly the bytes of a peer, and a crash is reproducible.
#[must_use]
pub fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut random = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Most pieces are short, and some are long.
        let longest = if random & 7 == 0 { 200 } else { 12 };
        let length = 1 + (random >> 8) as usize % longest;
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Cuts bytes into single bytes.
#[must_use]
pub fn bytewise(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.chunks(1).collect()
}

/// Reads bytes as a log of this format. The result is a trace that keeps its promises, or an error
/// of one line.
///
/// # Panics
///
/// Panics if the result is neither.
pub fn check_log(bytes: &[u8], format: Format) {
    for paths in [false, true] {
        let rules = Rules { paths, ..Rules::default() };
        match make_of(Cursor::new(bytes.to_vec()), "a.log", Some(format), &rules) {
            Ok(made) => {
                let has_path = made.trace.head.classes.iter().any(|class| class.path.is_some());
                assert!(paths || !has_path);
                check_trace(&made.trace);
            }
            Err(error) => {
                let error = error.to_string();
                assert!(error.starts_with("a.log") && !error.contains('\n'), "{error}");
            }
        }
    }
}

/// Checks that a trace keeps its promises, and that reading its file gives the same trace.
///
/// # Panics
///
/// Panics if a check fails.
pub fn check_trace(trace: &Trace) {
    assert!(trace.connections.is_sorted_by_key(|connection| connection.start));
    for connection in trace {
        assert!(connection.steps[0].think.is_zero() && connection.start <= trace.head.length);
        for step in &connection.steps {
            trace.class(*step);
        }
    }
    let counted: u64 = trace.head.classes.iter().map(|class| class.count).sum();
    assert_eq!(counted, trace.requests());
    let mut bytes = Vec::new();
    let checksum = file::encode(trace, &mut bytes).expect("memory takes all bytes");
    let mut back = file::decode(&bytes[..]).expect("a trace can be read back");
    assert_eq!(back.head.checksum, checksum);
    back.head.checksum.clone_from(&trace.head.checksum);
    assert_eq!(&back, trace);
}
