//! Why a command failed, and the exit code of the process.

use std::fmt;

use duality_lab::ask::settings::Misfit;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong: exit code 2.
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

/// A misfit of what the command line asks for.
pub(crate) fn flag(misfit: Misfit) -> Failure {
    let Misfit { key, problem } = misfit;
    Failure::misuse(match key {
        // These are no flags. The service is an argument of its own, and the whole is all settings.
        "service" | Misfit::WHOLE => problem,
        key => format!("--{key}: {problem}"),
    })
}
