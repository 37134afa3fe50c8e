//! The reason why a step did not pass: the party at fault, the place, and the remedy.

use std::fmt::{self, Display};
use std::io;

pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// The party at fault, which decides how the step ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Party {
    /// What the step checks or makes. The step fails.
    Tree,
    /// This machine lacks something. The step is skipped.
    Machine,
}

/// A failure prints as its place, what is wrong, and the remedy, in the first line. What a program
/// printed may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) party: Party,
    what: String,
    remedy: String,
}

impl Failure {
    /// This machine lacks something, and the remedy is the line to type.
    pub(crate) fn lack(what: impl Display, remedy: impl Display) -> Self {
        Self { party: Party::Machine, what: what.to_string(), remedy: remedy.to_string() }
    }

    /// The failure with another party.
    pub(crate) fn blame(self, party: Party) -> Self {
        Self { party, ..self }
    }

    /// The failure with what the user can do.
    pub(crate) fn remedy(self, remedy: impl Display) -> Self {
        Self { remedy: remedy.to_string(), ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)?;
        match self.remedy.as_str() {
            "" => Ok(()),
            remedy => write!(formatter, ": {remedy}"),
        }
    }
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self { party: Party::Tree, what, remedy: String::new() }
    }
}

impl From<&str> for Failure {
    fn from(what: &str) -> Self {
        what.to_owned().into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        error.to_string().into()
    }
}

/// An error with its place: a file, or a program that ran.
pub(crate) trait At<T> {
    /// The value, or the failure behind its place.
    fn at(self, place: impl Display) -> Result<T>;
}

impl<T, E: Into<Failure>> At<T> for Result<T, E> {
    fn at(self, place: impl Display) -> Result<T> {
        self.map_err(|error| {
            let failure = error.into();
            Failure { what: format!("{place}: {}", failure.what), ..failure }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_stands_before_the_message_and_the_remedy_behind_it() {
        let failure = Err::<(), _>(Failure::lack("no `go`", "install it")).at("peers").unwrap_err();
        assert_eq!(failure.to_string(), "peers: no `go`: install it");
        assert_eq!(failure.party, Party::Machine);
        let failure = Err::<(), _>(io::Error::other("full")).at("x").unwrap_err();
        assert_eq!((failure.party, &*failure.to_string()), (Party::Tree, "x: full"));
    }
}
