//! The time service: one line with the time, then the connection closes.
//!
//! The exchange is that of [RFC 867](https://www.rfc-editor.org/rfc/rfc867) (daytime), which leaves
//! the form of the line open. Here it is UTC to the second as in [RFC
//! 3339](https://www.rfc-editor.org/rfc/rfc3339), then CR and LF: `2026-11-21T01:02:03Z\r\n`,
//! always [`LINE_LENGTH`] bytes. The server does not read the client's bytes.

use std::io;

use duality_runtime::{handler::Handler, net::TcpStream, task};

use crate::{Entry, clock};

/// The time service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "time",
    summary: "says what time it is and closes",
    protocol: "RFC 867, the line as in RFC 3339",
    open: |_| Ok(Handler::new(serve)),
    persistent: false,
    ..Entry::PLAIN
};

/// Bytes in the reply, its CR and LF included.
pub const LINE_LENGTH: usize = 22;

/// Sends the line and the end of this side. Dropping the stream closes the connection.
///
/// # Errors
///
/// The connection broke.
pub async fn serve(mut stream: TcpStream) -> io::Result<()> {
    task::stage("time").await;
    stream.begin_request();
    let line = line(clock::seconds());
    let sent = stream.write_last(&line).await?;
    stream.write_all(&line[sent..]).await?;
    stream.end_request();
    Ok(())
}

/// Seconds from 1 January 1970 to 1 January 10000, where a year no longer has four digits.
const YEAR_10000: u64 = 253_402_300_800;

/// The line for a time in seconds since 1 January 1970, UTC.
fn line(seconds: u64) -> [u8; LINE_LENGTH] {
    let seconds = seconds.min(YEAR_10000 - 1);
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);

    let mut line = *b"0000-00-00T00:00:00Z\r\n";
    for (last_digit, value) in
        [(3, year), (6, month), (9, day), (12, hour), (15, minute), (18, second)]
    {
        let mut value = value;
        let mut digit = last_digit;
        while value > 0 {
            // A remainder of ten fits in a byte.
            line[digit] = b'0' + (value % 10) as u8;
            value /= 10;
            digit = digit.wrapping_sub(1);
        }
    }
    line
}

/// Year, month and day of a number of days since 1 January 1970, in the Gregorian calendar.
///
/// The count begins at 1 March of the year 0, so the leap day is the last day of its year. Then
/// every month's start is a linear function of its number. A cycle of 400 years has 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_line_is_the_time() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z\r\n"),
            (951_782_399, "2000-02-28T23:59:59Z\r\n"),
            (951_782_400, "2000-02-29T00:00:00Z\r\n"),
            (1_795_219_323, "2026-11-21T00:02:03Z\r\n"),
            (4_107_542_400, "2100-03-01T00:00:00Z\r\n"),
            (u64::MAX, "9999-12-31T23:59:59Z\r\n"),
        ] {
            assert_eq!(std::str::from_utf8(&line(seconds)).unwrap(), expected);
        }
    }

    proptest! {
        /// An independent implementation of the calendar agrees.
        #[test]
        fn the_calendar_agrees_with_httpdate(seconds in 0..YEAR_10000) {
            let line = line(seconds);
            let line = std::str::from_utf8(&line).unwrap();
            let http = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            prop_assert_eq!(&line[0..4], &http[12..16]);
            prop_assert_eq!(&line[8..10], &http[5..7]);
            prop_assert_eq!(&line[11..19], &http[17..25]);
            let month: usize = line[5..7].parse().unwrap();
            let names = "JanFebMarAprMayJunJulAugSepOctNovDec";
            prop_assert_eq!(&names[3 * month - 3..3 * month], &http[8..11]);
        }
    }
}
