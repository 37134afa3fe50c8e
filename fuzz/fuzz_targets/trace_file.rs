//! Traces as files, which may come from any source.
//!
//! An accepted trace keeps its promises, and reading its file gives the written trace. An error is
//! one line. The input may lack the last line: a fuzzer cannot guess a checksum, so the target adds
//! it.

#![no_main]

use duality_fuzz::check_trace;
use duality_trace::file::decode;
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let digest = Sha256::digest(bytes);
    let checksum: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    check(&[bytes, format!("sha256 {checksum}\n").as_bytes()].concat());
});

fn check(bytes: &[u8]) {
    match decode(bytes) {
        Ok(trace) => check_trace(&trace),
        Err(fault) => assert!(!fault.to_string().contains('\n'), "{fault}"),
    }
}
