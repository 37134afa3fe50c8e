//! The line that a measurement prints, in our own process or in a peer's.
//!
//! ```text
//!   switch 200000 5100000 ns          the cost, how often it was done, what that took in all
//!   memory 4000 45056000 bytes        the same in bytes
//!   unavailable no header st.h        why it cannot be measured
//! ```
//!
//! peers/README.md documents the line for authors of peers.

use std::fmt;

use crate::Trouble;

/// The longest line that is read.
pub(crate) const LONGEST: usize = 1024;

/// The unit of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// The symbol of the unit.
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "bytes",
        }
    }
}

/// The result of many operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The number of operations; at least one.
    pub count: u64,
    /// The sum over all operations.
    pub total: u64,
    /// The unit of `total`.
    pub unit: Unit,
}

impl Reading {
    pub(crate) fn new(count: u64, total: u128, unit: Unit) -> Self {
        Self { count, total: u64::try_from(total).unwrap_or(u64::MAX), unit }
    }

    /// The mean of one operation.
    pub fn each(self) -> f64 {
        self.total as f64 / self.count as f64
    }

    /// The line that states the reading.
    pub fn line(self, cost: &str) -> String {
        format!("{cost} {} {} {}", self.count, self.total, self.unit.symbol())
    }
}

/// A line that breaks the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; expected `COST COUNT TOTAL ns|bytes`, see peers/README.md", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Reads the answer to a question about `cost`.
///
/// # Errors
///
/// Returns the error of the text: the text is not one line of the format, or is about another cost.
pub(crate) fn read(cost: &str, text: &str) -> Result<Result<Reading, Trouble>, Malformed> {
    let wrong = |what: &str| Malformed(format!("{what} in the answer `{}`", shortened(text)));
    let line = text.strip_suffix('\n').unwrap_or(text);
    if line.contains('\n') {
        return Err(wrong("more than one line"));
    }
    if let Some(why) = line.strip_prefix("unavailable ") {
        return Ok(Err(Trouble::Unavailable(shortened(why))));
    }
    let words: Vec<&str> = line.split(' ').collect();
    let [name, count, total, unit] = words[..] else { return Err(wrong("not four words")) };
    if name != cost {
        return Err(wrong("another cost"));
    }
    let number = |word: &str| {
        // Rust would accept a sign, which the format does not have.
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| word.parse::<u64>().ok()).flatten()
    };
    let count = number(count).filter(|&count| count > 0).ok_or_else(|| wrong("no count"))?;
    let total = number(total).ok_or_else(|| wrong("no total"))?;
    let unit = [Unit::Nanoseconds, Unit::Bytes].into_iter().find(|known| known.symbol() == unit);
    let unit = unit.ok_or_else(|| wrong("no unit"))?;
    Ok(Ok(Reading { count, total, unit }))
}

/// The beginning of the text for a message, in printable characters.
fn shortened(text: &str) -> String {
    text.trim().chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(count in 1u64.., total: u64, bytes: bool) {
            let unit = if bytes { Unit::Bytes } else { Unit::Nanoseconds };
            let reading = Reading { count, total, unit };
            let line = reading.line("yield-2");
            prop_assert_eq!(read("yield-2", &line), Ok(Ok(reading)));
            prop_assert_eq!(read("yield-2", &(line.clone() + "\n")), Ok(Ok(reading)));
            prop_assert!(read("yield-1000", &line).is_err());
            prop_assert!(reading.each().is_finite());
        }

        #[test]
        fn whatever_comes_is_read_or_refused(text: String) {
            if let Err(malformed) = read("switch", &text) {
                prop_assert!(malformed.to_string().lines().count() == 1);
            }
        }

        #[test]
        fn what_is_read_is_written_alike(
            text in "(switch|spawn)? ?[+0-9]{1,22} [-0-9]{1,22} ?(ns|bytes|s)?\n?"
        ) {
            if let Ok(Ok(reading)) = read("switch", &text) {
                let words = text.split_whitespace().map(|word| {
                    let bare = word.trim_start_matches('0');
                    if bare.is_empty() { "0" } else { bare }
                });
                let plain: Vec<&str> = words.collect();
                prop_assert_eq!(reading.line("switch"), plain.join(" "));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str| read("lock", text).unwrap_err().to_string();
        assert!(refused("").starts_with("not four words"));
        assert!(refused("lock 0 5 ns").starts_with("no count"));
        assert!(refused("lock 1 -5 ns").starts_with("no total"));
        assert!(refused("lock 1 5 ms").starts_with("no unit"));
        assert!(refused("lock 1 5 ns\nlock 1 5 ns").starts_with("more than one line"));
        assert!(refused("lock 1 99999999999999999999 ns").starts_with("no total"));
    }

    #[test]
    fn a_program_may_say_that_it_cannot() {
        let why = Trouble::Unavailable("it has no locks".into());
        assert_eq!(read("lock", "unavailable it has no locks\n"), Ok(Err(why)));
    }
}
