//! Conditional and range requests: lines of `NAME: VALUE`, judged for a file.
//!
//! A part lies within the file. Without a condition, the verdict is the whole file. A date that can
//! be parsed can be written.

#![no_main]

use duality_services::fuzzing::http::{date, judge, range, written_date};
use libfuzzer_sys::fuzz_target;

const ENTITY_TAG: &str = "\"2a-5f\"";
/// The time Sun, 06 Nov 1994 08:49:37 GMT.
const LAST_MODIFIED: u64 = 784_111_777;
const LENGTH: u64 = 1000;

fuzz_target!(|bytes: &[u8]| {
    let mut fields: Vec<(&str, &[u8])> = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        if let Ok(name) = std::str::from_utf8(name) {
            fields.push((name, value));
        }
        if let Some(seconds) = date(value) {
            assert_eq!(date(&written_date(seconds)), Some(seconds));
        }
        for total in [0, 1, LENGTH, u64::MAX] {
            assert!(range(value, total).is_none_or(|part| is_within(part, total)));
        }
    }

    let has = |name: &str| fields.iter().any(|field| field.0.eq_ignore_ascii_case(name));
    let (status, part) = judge(&fields, (ENTITY_TAG, LAST_MODIFIED, LENGTH));
    assert_eq!(status == 206, part.is_some());
    assert!(part.is_none_or(|part| is_within(part, LENGTH)));
    assert!(has("range") || !matches!(status, 206 | 416));
    assert!(has("if-none-match") || has("if-modified-since") || status != 304);
    assert!(has("if-match") || has("if-unmodified-since") || status != 412);
});

fn is_within((offset, length): (u64, u64), total: u64) -> bool {
    length > 0 && offset.checked_add(length).is_some_and(|end| end <= total)
}
