//! The correct replies of http: their statuses, and their bodies.

use std::fmt;
use std::str::FromStr;

use regex::bytes::{Regex, RegexBuilder};

use duality_trace::Mistake;

/// The longest expression, and the most bytes that it is compiled to.
const LONGEST_EXPRESSION: usize = 4096;
const MOST_COMPILED: usize = 1 << 20;

/// The criteria for correct replies.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// Their statuses.
    pub statuses: Statuses,
    /// Their bodies.
    pub body: ExpectedBody,
}

/// A set of statuses of final replies, 200 to 999.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Statuses([u64; 16]);

/// The criterion for the body of a correct reply.
#[derive(Clone, Debug, Default)]
pub enum ExpectedBody {
    /// The body of the first reply to the same request with the same status.
    #[default]
    Same,
    /// Any.
    Any,
    /// A body in which this expression is found.
    Matching(Regex),
}

impl Statuses {
    const LOWEST: u16 = 200;
    const HIGHEST: u16 = 999;

    /// Whether a status is in the set.
    #[inline]
    pub fn contains(&self, status: u16) -> bool {
        self.0.get(usize::from(status / 64)).is_some_and(|word| (word >> (status % 64)) & 1 == 1)
    }

    /// A bit for each status.
    pub(crate) fn bits(self) -> [u64; 16] {
        self.0
    }

    /// The set that has such [`bits`](Self::bits).
    pub(crate) fn of_bits(bits: [u64; 16]) -> Self {
        Self(bits)
    }

    fn none() -> Self {
        Self([0; 16])
    }

    fn add(&mut self, status: u16) {
        self.0[usize::from(status / 64)] |= 1 << (status % 64);
    }
}

impl Default for Statuses {
    /// 200 alone.
    fn default() -> Self {
        let mut statuses = Self::none();
        statuses.add(200);
        statuses
    }
}

impl fmt::Debug for Statuses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (Self::LOWEST..=Self::HIGHEST).filter(|status| self.contains(*status));
        formatter.debug_set().entries(all).finish()
    }
}

impl FromStr for Statuses {
    type Err = Mistake;

    /// Reads statuses, ranges and classes: `200,304`, `200-299`, `2xx`.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let mut statuses = Self::none();
        for part in text.split(',') {
            let (first, last) = range(part.trim()).ok_or_else(|| {
                let part: String = part.chars().take(40).collect();
                format!("{part:?} is no status: write 200,304 or 2xx or 200-299")
            })?;
            if first < Self::LOWEST {
                return Err(format!(
                    "{first} is no status of a final reply: those of 1xx are skipped, write 200 or more"
                ).into());
            }
            (first..=last).for_each(|status| statuses.add(status));
        }
        Ok(statuses)
    }
}

/// The first and the last status of `200`, `200-299` or `2xx`.
fn range(part: &str) -> Option<(u16, u16)> {
    let number = |text: &str| {
        let is_status = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_status)
    };
    if let Some(class) = part.strip_suffix("xx").or_else(|| part.strip_suffix("XX")) {
        let first: u16 = number(&format!("{class}00"))?;
        return Some((first, first + 99));
    }
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

impl FromStr for ExpectedBody {
    type Err = Mistake;

    /// Reads `same`, `any` or `/EXPRESSION/`.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let expression = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let expression = match (text, expression) {
            ("same", _) => return Ok(Self::Same),
            ("any", _) => return Ok(Self::Any),
            (_, Some(expression)) => expression,
            _ => return Err("write same, any or an expression such as /\"ok\":true/".into()),
        };
        if expression.len() > LONGEST_EXPRESSION {
            return Err(format!("the expression is longer than {LONGEST_EXPRESSION} bytes").into());
        }
        let compiled = RegexBuilder::new(expression).size_limit(MOST_COMPILED).build();
        compiled.map(Self::Matching).map_err(|error| {
            // The message of a mistake has several lines, and the last line describes the mistake.
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            format!("not an expression of the regex crate: {}", last.trim_start_matches("error: "))
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn members(text: &str) -> Vec<u16> {
        let statuses: Statuses = text.parse().unwrap();
        (0..=u16::MAX).filter(|status| statuses.contains(*status)).collect()
    }

    #[test]
    fn statuses_are_numbers_ranges_and_classes() {
        assert_eq!(members("200"), [200]);
        assert_eq!(members("304, 200"), [200, 304]);
        assert_eq!(members("2xx"), (200..300).collect::<Vec<_>>());
        assert_eq!(members("200-202,9XX").len(), 103);
        assert_eq!(members("200-299"), members("2xx"));
        assert!(Statuses::default().contains(200) && !Statuses::default().contains(201));
        assert_eq!(format!("{:?}", "304,200".parse::<Statuses>().unwrap()), "{200, 304}");
    }

    #[test]
    fn what_is_no_status_is_told() {
        for (text, message) in [
            ("", "\"\" is no status"),
            ("20", "\"20\" is no status"),
            ("+20", "is no status"),
            ("200,", "\"\" is no status"),
            ("1000", "is no status"),
            ("300-200", "is no status"),
            ("xx", "is no status"),
            ("1xx", "those of 1xx are skipped"),
            ("101", "those of 1xx are skipped"),
        ] {
            let problem = text.parse::<Statuses>().unwrap_err().to_string();
            assert!(problem.contains(message), "{text}: {problem}");
        }
    }

    #[test]
    fn bodies_are_same_any_or_an_expression() {
        assert!(matches!("same".parse(), Ok(ExpectedBody::Same)));
        assert!(matches!("any".parse(), Ok(ExpectedBody::Any)));
        let Ok(ExpectedBody::Matching(regex)) = "/^a.c$/".parse() else { panic!("an expression") };
        assert!(regex.is_match(b"abc") && !regex.is_match(b"xabc"));
        for (text, message) in [
            ("", "write same, any or"),
            ("/", "write same, any or"),
            ("Same", "write same, any or"),
            ("/a(/", "unclosed group"),
            ("/a{1000}{1000}{1000}/", "size limit"),
        ] {
            let problem = text.parse::<ExpectedBody>().unwrap_err().to_string();
            assert!(problem.contains(message) && !problem.contains('\n'), "{text}: {problem}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9xX,-]{0,20}|\\PC{0,20}") {
            let _ = text.parse::<ExpectedBody>();
            if let Ok(statuses) = text.parse::<Statuses>() {
                let all = (0..=u16::MAX).filter(|status| statuses.contains(*status));
                prop_assert!(all.into_iter().all(|status| (200..=999).contains(&status)));
            }
        }
    }
}
