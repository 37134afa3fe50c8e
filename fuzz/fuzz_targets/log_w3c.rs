//! Logs in the extended format of the W3C, up to the trace.
//!
//! A trace keeps its promises, and reading its file gives the written trace. An error is one line.

#![no_main]

use duality_fuzz::check_log;
use duality_trace::readers::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check_log(bytes, Format::W3c));
