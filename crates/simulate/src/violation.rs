//! What a simulation found wrong.

use std::fmt;

/// What a simulation found wrong, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

impl From<&str> for Violation {
    fn from(words: &str) -> Self {
        Self(words.to_owned())
    }
}

impl From<String> for Violation {
    fn from(words: String) -> Self {
        Self(words)
    }
}
