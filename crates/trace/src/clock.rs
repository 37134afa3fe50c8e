//! Stamps of logs, as microseconds since 1970.

use jiff::Timestamp;

/// A day, in seconds.
const DAY: i64 = 86_400;

/// The time of `17/May/2015:10:05:03 +0000`, the stamp of the common log format. HAProxy has
/// milliseconds, `10:05:03.655`, and no zone: its time counts as UTC.
pub(crate) fn common_log(stamp: &[u8]) -> Option<i64> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let marks = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':')];
    if stamp.len() < 20 || marks.iter().any(|(at, mark)| stamp[*at] != *mark) {
        return None;
    }
    let place = MONTHS.chunks(3).position(|month| month == &stamp[3..6])?;
    let [day, year] = [digits(&stamp[..2])?, digits(&stamp[7..11])?];
    let clock = time_of_day(&stamp[12..20])?;
    let days = days_of(year, place as i64 + 1, day)?;
    let (fraction, rest) = fraction(&stamp[20..])?;
    let zone = match rest {
        [] => 0,
        [b' ', sign @ (b'+' | b'-'), zone @ ..] if zone.len() == 4 => {
            let [hours, minutes] = [digits(&zone[..2])?, digits(&zone[2..])?];
            let seconds = 3600 * hours + 60 * minutes;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    let seconds = days * DAY + clock - zone;
    (seconds >= 0).then_some(seconds * 1_000_000 + fraction)
}

/// The time of the date `2019-12-04` and the time `21:02:31`, which may have a fraction.
pub(crate) fn date_and_time(date: &[u8], time: &[u8]) -> Option<i64> {
    if date.len() != 10 || date[4] != b'-' || date[7] != b'-' || time.len() < 8 {
        return None;
    }
    let days = days_of(digits(&date[..4])?, digits(&date[5..7])?, digits(&date[8..])?)?;
    let (fraction, rest) = fraction(&time[8..])?;
    let seconds = days * DAY + time_of_day(&time[..8])?;
    (rest.is_empty() && seconds >= 0).then_some(seconds * 1_000_000 + fraction)
}

/// The seconds of `10:05:03`.
fn time_of_day(text: &[u8]) -> Option<i64> {
    if text[2] != b':' || text[5] != b':' {
        return None;
    }
    let [hours, minutes, seconds] =
        [digits(&text[..2])?, digits(&text[3..5])?, digits(&text[6..8])?];
    // A minute may have a leap second.
    (hours < 24 && minutes < 60 && seconds <= 60).then_some(3600 * hours + 60 * minutes + seconds)
}

/// The microseconds of `.655`, and the text after it. Zero without a point.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else { return Some((0, text)) };
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let kept = &rest[..length.min(6)];
    let value = digits(kept).filter(|_| length > 0)?;
    Some((value * 10_i64.pow(6 - kept.len() as u32), &rest[length..]))
}

/// A number of digits alone, at most 18 of them.
fn digits(text: &[u8]) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 18 && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |value, digit| 10 * value + i64::from(digit - b'0')))
}

/// The days since 1970 of a date (Howard Hinnant, *chrono-Compatible Low-Level Date Algorithms*).
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// A date in words, `1970-01-01`, of microseconds since 1970.
pub(crate) fn date(time: i64) -> String {
    Timestamp::from_microsecond(time)
        .map_or_else(|_| "an unknown date".to_owned(), |time| time.strftime("%Y-%m-%d").to_string())
}

/// The time of `2026-11-26T08:06:50.123+01:00`.
pub(crate) fn rfc3339(text: &str) -> Option<i64> {
    // Most servers write UTC, which needs no calendar of zones.
    if let Some((date, time)) = text.strip_suffix('Z').and_then(|text| text.split_once('T')) {
        return date_and_time(date.as_bytes(), time.as_bytes());
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_microsecond).filter(|time| *time >= 0)
}

/// The time of seconds since 1970, at most those of the year 9999.
pub(crate) fn seconds(seconds: f64) -> Option<i64> {
    (0.0..=253_402_300_799.0).contains(&seconds).then(|| (seconds * 1e6).round() as i64)
}

/// A length of time in microseconds, from seconds; `None` if the text is no length of time.
pub(crate) fn length(seconds: f64) -> Option<u64> {
    (0.0..1e9).contains(&seconds).then(|| (seconds * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_with_their_time_zone() {
        let time = |stamp: &str| common_log(stamp.as_bytes());
        assert_eq!(time("17/May/2015:10:05:03 +0000"), Some(1_431_857_103_000_000));
        assert_eq!(time("17/May/2015:12:05:03 +0200"), Some(1_431_857_103_000_000));
        assert_eq!(time("17/May/2015:03:35:03 -0630"), Some(1_431_857_103_000_000));
        assert_eq!(time("17/May/2015:10:05:03.655"), Some(1_431_857_103_655_000));
        for wrong in [
            "",
            "-",
            "17/Mai/2015:10:05:03 +0000",
            "31/Feb/2015:10:05:03 +0000",
            "29/Feb/2015:10:05:03 +0000",
            "17/May/2015:24:05:03 +0000",
            "17/May/2015:10:05:03 +00",
            "17/May/2015:10:05:03.",
            "31/Dec/1969:10:05:03 +0000",
        ] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        assert_eq!(rfc3339("2015-05-17T10:05:03Z"), Some(1_431_857_103_000_000));
        assert_eq!(rfc3339("2015-05-17T12:05:03.25+02:00"), Some(1_431_857_103_250_000));
        assert_eq!(rfc3339("yesterday"), None);
    }

    #[test]
    fn our_calendar_is_the_usual_one() {
        for day in (0..60_000).step_by(7) {
            let time = Timestamp::from_second(day * DAY + 45_296).unwrap();
            let stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string();
            assert_eq!(common_log(stamp.as_bytes()), Some(time.as_microsecond()), "{stamp}");
            let text = time.to_string();
            assert_eq!(rfc3339(&text), Some(time.as_microsecond()), "{text}");
            assert_eq!(date(time.as_microsecond()), &text[..10]);
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        assert_eq!(seconds(1_431_857_103.000_5), Some(1_431_857_103_000_500));
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!((seconds(wrong), length(wrong)), (None, None), "{wrong}");
        }
    }
}
