//! The reason why a command failed, and with it the exit code of the process.

use std::fmt;

/// The reason why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line, or the folder, is wrong: exit code 2.
    Misuse(String),
    /// The work failed: exit code 1.
    Failed(String),
}

impl Failure {
    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self::Misuse(message.into())
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Misuse(message) | Self::Failed(message)) = self;
        formatter.write_str(message)
    }
}
