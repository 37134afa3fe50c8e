//! Dates in HTTP's form (`Sat, 21 Nov 2026 01:02:03 GMT`). Each kernel thread formats the current
//! date once a second.

use std::{
    cell::Cell,
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use httpdate::HttpDate;

/// Bytes in a date.
pub(super) const LENGTH: usize = 29;

/// The text of a date.
pub(super) type Text = [u8; LENGTH];

/// The date `seconds` after 1 January 1970. Each kernel thread remembers its last date.
pub(super) fn current(seconds: u64) -> Text {
    thread_local! {
        // The value is constant and has no destructor, so each access is only an offset from a
        // register. There is no wait between the read and the write, so the task stays on one
        // thread meanwhile.
        static LAST: Cell<(u64, Text)> = const { Cell::new((u64::MAX, [0; LENGTH])) };
    }
    let (second, text) = LAST.get();
    if second == seconds {
        return text;
    }
    let text = format(seconds);
    LAST.set((seconds, text));
    text
}

/// The date `seconds` after 1 January 1970; for any later time, the last second of the year 9999.
pub(super) fn format(seconds: u64) -> Text {
    /// 1 January 10000: from then on the year does not fit, and httpdate panics.
    const END: u64 = 253_402_300_800;
    let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds.min(END - 1)));
    let mut text = [0; LENGTH];
    write!(text.as_mut_slice(), "{date}").expect("a date has 29 characters");
    text
}

/// Seconds since 1 January 1970. Accepts the three forms of RFC 9110, section 5.6.7.
pub(super) fn parse(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    httpdate::parse_http_date(text).ok().map(seconds_of)
}

/// Whole seconds since 1 January 1970. An earlier time, which a file may have, counts as 0.
pub(super) fn seconds_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_are_written_and_read() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse(b"yesterday"), None);
        assert_eq!(parse(b"\xff"), None);
        assert_eq!(seconds_of(UNIX_EPOCH - Duration::from_secs(5)), 0);
    }

    #[test]
    fn the_current_date_follows_the_clock_both_ways() {
        for seconds in [5, 5, 6, 4] {
            assert_eq!(current(seconds), format(seconds));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
