//! The reason why a command failed, and the exit code of the process.

use std::fmt;

use duality_lab::ask::settings::Misfit;

/// The reason why a command did not succeed.
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

/// What an error of another kind says, as a failure. The place is the file, flag or party at fault.
pub(crate) trait OrFailure<T> {
    /// The work failed.
    fn failed(self) -> Result<T, Failure>;
    /// The work failed at this place.
    fn failed_at(self, place: impl fmt::Display) -> Result<T, Failure>;
    /// The command line is wrong.
    fn misuse(self) -> Result<T, Failure>;
    /// The command line is wrong at this place.
    fn misuse_at(self, place: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> OrFailure<T> for Result<T, E> {
    fn failed(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::Failed(error.to_string()))
    }

    fn failed_at(self, place: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::Failed(format!("{place}: {error}")))
    }

    fn misuse(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::Misuse(error.to_string()))
    }

    fn misuse_at(self, place: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::Misuse(format!("{place}: {error}")))
    }
}

/// The failure for a misfit of the command line.
pub(crate) fn flag(misfit: Misfit) -> Failure {
    let Misfit { key, problem } = misfit;
    Failure::misuse(match key {
        // These settings have no flags. The service is a positional argument, and `WHOLE` means all
        // settings.
        "service" | Misfit::WHOLE => problem,
        key => format!("--{}: {problem}", name_of_flag(key)),
    })
}

/// The flag of a setting, which has a name of its own where a plan has a list.
fn name_of_flag(key: &str) -> &str {
    match key {
        "hosts" => "host",
        "trace" => "load-from",
        key => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_named_by_its_flag() {
        for (key, flag_name) in
            [("hosts", "--host: x"), ("trace", "--load-from: x"), ("tls", "--tls: x")]
        {
            assert_eq!(flag(Misfit::new(key, "x")).to_string(), flag_name);
        }
    }
}
