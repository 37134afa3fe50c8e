//! Stamps of logs, as microseconds since 1970.

use jiff::Timestamp;

/// The time of `17/May/2015:10:05:03 +0000`, the stamp of the common log format.
#[derive(Default)]
pub(crate) struct CommonLog {
    /// The stamp of the line before: many lines have the same stamp.
    last: String,
    time: Option<i64>,
}

impl CommonLog {
    /// The time of a stamp; `None` if the text is no stamp.
    pub(crate) fn time(&mut self, stamp: &str) -> Option<i64> {
        if self.last != stamp {
            let time = Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", stamp).ok();
            self.time = time.map(Timestamp::as_microsecond).filter(|time| *time >= 0);
            stamp.clone_into(&mut self.last);
        }
        self.time
    }
}

/// The time of `2026-11-26T08:06:50.123+01:00`.
pub(crate) fn rfc3339(text: &str) -> Option<i64> {
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
        let mut clock = CommonLog::default();
        assert_eq!(clock.time("17/May/2015:10:05:03 +0000"), Some(1_431_857_103_000_000));
        assert_eq!(clock.time("17/May/2015:12:05:03 +0200"), Some(1_431_857_103_000_000));
        for wrong in ["", "-", "17/Mai/2015:10:05:03 +0000", "31/Feb/2015:10:05:03 +0000"] {
            assert_eq!(clock.time(wrong), None, "{wrong}");
        }
        assert_eq!(rfc3339("2015-05-17T10:05:03Z"), Some(1_431_857_103_000_000));
        assert_eq!(rfc3339("2015-05-17T12:05:03.25+02:00"), Some(1_431_857_103_250_000));
        assert_eq!(rfc3339("yesterday"), None);
    }

    #[test]
    fn what_is_no_time_is_none() {
        assert_eq!(seconds(1_431_857_103.000_5), Some(1_431_857_103_000_500));
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!((seconds(wrong), length(wrong)), (None, None), "{wrong}");
        }
    }
}
