//! Numbers in the form that people read, with their units. The terminal's tables and the report
//! share them.

use sha2::{Digest, Sha256};

use crate::statistics::{Estimate, Interval};

/// Beyond this share, half of an interval misleads. Intervals are computed on logarithms, so they
/// reach farther above than below.
const LOPSIDED: f64 = 0.5;

/// The number of connections that stands for "as many as the load command opens", which only the
/// command knows.
pub(crate) const OF_THE_COMMAND: usize = 0;

/// `61,234 ± 1.2%`: a rate, and half of its interval as a share of the rate. If the share is large:
/// `61,234 [20,411 to 183,702]`.
pub(crate) fn rate(rate: Estimate) -> String {
    let value = grouped(rate.value);
    match (rate.interval, half(rate)) {
        (_, Some(half)) => format!("{value} ±{:4.1}%", 100.0 * half),
        (Some(interval), None) => format!("{value} {}", ends(interval, grouped)),
        (None, None) => value,
    }
}

/// Half of an interval as a share of the value. `None` without an interval, or if the half would
/// mislead.
pub(crate) fn half(estimate: Estimate) -> Option<f64> {
    let interval = estimate.interval?;
    let half = (interval.high - interval.low) / 2.0 / estimate.value;
    (half <= LOPSIDED).then_some(half)
}

/// `[20,411 to 183,702]`.
pub(crate) fn ends(interval: Interval, show: fn(f64) -> String) -> String {
    format!("[{} to {}]", show(interval.low), show(interval.high))
}

/// `0.66 [0.64 to 0.69]`: a ratio and its interval.
pub(crate) fn multiple(ratio: Estimate) -> String {
    match ratio.interval {
        Some(interval) => {
            format!("{:.2} [{:.2} to {:.2}]", ratio.value, interval.low, interval.high)
        }
        None => format!("{:.2}", ratio.value),
    }
}

/// 1234567.8 → `1,234,568`.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds → `85 µs`, `8.5 ms`, `1.2 s`; a zero means that none was measured.
pub fn duration(microseconds: f64) -> String {
    match microseconds {
        0.0 => "–".to_owned(),
        below if below < 0.05 => format!("{} ns", three_digits(1e3 * below)),
        // Rounding must not give "1000 µs" or "1000 ms".
        below if below < 999.5 => format!("{} µs", three_digits(below)),
        below if below < 999_500.0 => format!("{} ms", three_digits(below / 1e3)),
        _ => format!("{} s", three_digits(microseconds / 1e6)),
    }
}

/// Bytes → `3.2 MiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    match bytes {
        below if below < KIB * KIB => format!("{} KiB", three_digits(below / KIB)),
        below if below < KIB * KIB * KIB => format!("{} MiB", three_digits(below / KIB / KIB)),
        _ => format!("{} GiB", three_digits(bytes / KIB / KIB / KIB)),
    }
}

/// A share in the form that people read: `6.3 %`. Shares from ten times on, infinity included, are
/// `more than 1,000 %`.
pub(crate) fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if !percent.is_finite() || percent >= 1000.0 => "more than 1,000 %".to_owned(),
        percent if percent >= 20.0 => format!("{percent:.0} %"),
        percent => format!("{percent:.1} %"),
    }
}

/// The share, rounded up: what it bounds is never more than is told.
pub(crate) fn at_most(share: f64) -> String {
    let step = if share < 0.2 { 1000.0 } else { 100.0 };
    // The last digit of a product is not to add a step.
    percent((share * step - 1e-9).ceil() / step + 0.0)
}

/// The share, rounded down: what it bounds is never less than is told.
pub(crate) fn at_least(share: f64) -> String {
    let step = if share < 0.2 { 1000.0 } else { 100.0 };
    percent((share * step + 1e-9).floor() / step)
}

/// The things that the number of a load counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Connections that are open at once.
    Connections,
    /// Times the users of a recording.
    Users,
}

impl Counted {
    /// `1,000 connections`, `1,000 times your users`.
    pub fn one(self, count: usize) -> String {
        self.several(&[count])
    }

    /// `10, 100 and 1,000 connections`, `10 and 100 times your users`.
    pub fn several(self, counts: &[usize]) -> String {
        let unit = match (self, counts) {
            (Self::Connections, [1]) => "connection",
            (Self::Connections, _) => "connections",
            (Self::Users, [1]) => "time your users",
            (Self::Users, _) => "times your users",
        };
        let counts: Vec<String> = counts.iter().map(|&count| how_many(count)).collect();
        format!("{} {unit}", listed(&counts))
    }

    /// The noun after `number of`, and the name of a column of CSV.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Users => "users",
        }
    }

    /// The heading of a column of bare numbers.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Connections => "Connections",
            Self::Users => "Times your users",
        }
    }

    /// The label of an axis.
    pub fn axis(self) -> &'static str {
        match self {
            Self::Connections => "open connections",
            Self::Users => "times your users",
        }
    }
}

/// `1 connection`, `1,000 connections`.
pub(crate) fn connections(count: usize) -> String {
    Counted::Connections.one(count)
}

/// `10, 100 and 1,000 connections`.
pub(crate) fn connections_of(counts: &[usize]) -> String {
    Counted::Connections.several(counts)
}

/// The number of a load: `1,000`. If the load command takes no number of connections, only the
/// command knows.
pub(crate) fn how_many(concurrency: usize) -> String {
    match concurrency {
        OF_THE_COMMAND => "the command's own".to_owned(),
        known => grouped(known as f64),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed<T: AsRef<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// A word as a shell reads it.
pub fn in_shell(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./,:=@%+".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// At most one decimal, and none if it would be zero.
fn three_digits(value: f64) -> String {
    if value < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Text within markup: names come from files of any origin.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The hash that `sha256sum` prints.
pub(crate) fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_interval_is_said_to_reach_below_nothing() {
        let estimate =
            |low, high| Estimate { value: 300.0, interval: Some(Interval { low, high }) };
        assert_eq!(rate(estimate(270.0, 330.0)), "300 ±10.0%");
        assert_eq!(rate(estimate(82.0, 812.8)), "300 [82 to 813]");
        assert_eq!(rate(Estimate { value: 300.0, interval: None }), "300");
    }

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(grouped(0.0), "0");
        assert_eq!(grouped(999.4), "999");
        assert_eq!(grouped(1_234_567.8), "1,234,568");
        assert_eq!(duration(0.0), "–");
        assert_eq!(duration(0.0349), "34.9 ns");
        assert_eq!(duration(8.54), "8.5 µs");
        assert_eq!(duration(999.7), "1.0 ms");
        assert_eq!(duration(1_200_000.0), "1.2 s");
        assert_eq!(bytes(3.25 * 1024.0 * 1024.0), "3.2 MiB");
        assert_eq!(connections(1), "1 connection");
        assert_eq!(connections(1000), "1,000 connections");
        assert_eq!(connections_of(&[1, 10]), "1 and 10 connections");
        assert_eq!(connections(0), "the command's own connections");
        assert_eq!(Counted::Users.one(1), "1 time your users");
        assert_eq!(Counted::Users.several(&[10, 1000]), "10 and 1,000 times your users");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
    }
}
