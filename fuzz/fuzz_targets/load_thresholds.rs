//! Conditions under which a load fails (`--fail-if`).
//!
//! An accepted condition is shown as it was written, and means the same when it is read again. A
//! refusal is one line.

#![no_main]

use duality_lab::ask::thresholds::Threshold;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Threshold>() {
        Ok(read) => assert_eq!(read.to_string().parse(), Ok(read)),
        Err(problem) => assert!(!problem.to_string().contains(['\n', '\r'])),
    }
});
