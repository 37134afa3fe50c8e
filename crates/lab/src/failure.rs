//! The reason why a command failed: one line, and the party at fault, which decides the exit code.

use std::fmt::Display;
use std::io::{self, ErrorKind};

use duality_load::TargetError;
use serde::{Deserialize, Serialize};

/// The party at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Party {
    /// The user: a flag, a plan or a named file is wrong.
    User,
    /// This machine, or another host of the experiment, refuses or lacks something.
    Machine,
    /// A program that is measured or run.
    Subject,
    /// The load: its generator, its recording, or the figures that it gave.
    Load,
    /// The store of an experiment.
    Store,
    /// A signal, or the end of the budget, ended the work early.
    Interruption,
}

impl Party {
    /// All parties.
    pub const ALL: [Self; 6] =
        [Self::User, Self::Machine, Self::Subject, Self::Load, Self::Store, Self::Interruption];

    /// The exit code of a command that failed: 2 for misuse, and 1 for everything else.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::User => 2,
            Self::Machine | Self::Subject | Self::Load | Self::Store | Self::Interruption => 1,
        }
    }
}

/// The reason for a failure. It prints as one line, which names the place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}{}{remedy}", if remedy.is_empty() { "" } else { ": " })]
pub struct Failure {
    /// The party at fault.
    pub party: Party,
    what: String,
    remedy: String,
}

impl Failure {
    /// A failure with a message, which may name the remedy itself.
    pub fn new(party: Party, what: impl Display) -> Self {
        Self { party, what: what.to_string(), remedy: String::new() }
    }

    /// A mistake of the user.
    pub fn misuse(what: impl Display) -> Self {
        Self::new(Party::User, what)
    }

    /// An error of the system at a file or directory that the user named.
    pub(crate) fn of_system(error: io::Error, place: impl Display) -> Self {
        let (party, remedy) = party_and_remedy(error.kind());
        Self::new(party, error).at(place).remedy(remedy)
    }

    /// The failure with what the user can do.
    #[must_use]
    pub fn remedy(self, remedy: impl Display) -> Self {
        Self { remedy: remedy.to_string(), ..self }
    }

    /// The failure within a larger place.
    #[must_use]
    pub fn at(self, place: impl Display) -> Self {
        Self { what: format!("{place}: {}", self.what), ..self }
    }
}

/// Makes a failure of an error of another kind.
pub trait Blame<T> {
    /// `party` is at fault.
    ///
    /// # Errors
    ///
    /// The message of the error.
    fn blame(self, party: Party) -> Result<T, Failure>;

    /// `party` is at fault, at this file, flag or host.
    ///
    /// # Errors
    ///
    /// The message of the error, behind its place.
    fn blame_at(self, party: Party, place: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> Blame<T> for Result<T, E> {
    fn blame(self, party: Party) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(party, error))
    }

    fn blame_at(self, party: Party, place: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(party, error).at(place))
    }
}

/// Adds the place to an error of the system.
pub trait AtFile<T> {
    /// The operation was at this file or directory, which the user named. The error decides whether
    /// the user or the machine is at fault.
    ///
    /// # Errors
    ///
    /// The error of the system, behind its place.
    fn at_file(self, place: impl Display) -> Result<T, Failure>;
}

impl<T> AtFile<T> for io::Result<T> {
    fn at_file(self, place: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::of_system(error, place))
    }
}

/// The party at fault for an error at a named file, and what the user can do.
fn party_and_remedy(kind: ErrorKind) -> (Party, &'static str) {
    match kind {
        ErrorKind::NotFound => (Party::User, "name one that exists"),
        ErrorKind::PermissionDenied => (Party::User, "allow this user to use it, or name another"),
        ErrorKind::AlreadyExists => (Party::User, "choose another name"),
        ErrorKind::IsADirectory => (Party::User, "name a file"),
        ErrorKind::NotADirectory => (Party::User, "name a directory"),
        ErrorKind::InvalidData | ErrorKind::InvalidInput => (Party::User, ""),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (Party::Machine, "make room"),
        ErrorKind::ReadOnlyFilesystem => (Party::Machine, "name a place that can be written"),
        _ => (Party::Machine, ""),
    }
}

impl From<duality_load::Error> for Failure {
    fn from(error: duality_load::Error) -> Self {
        use duality_load::Error;
        let party = match &error {
            Error::Options(_) | Error::Target(_) => Party::User,
            Error::Unanswered { .. } => Party::Subject,
            Error::Descriptors { .. } | Error::Pin { .. } | Error::System { .. } => Party::Machine,
            Error::Interrupted => Party::Interruption,
        };
        Self::new(party, error)
    }
}

impl From<duality_trace::readers::Error> for Failure {
    fn from(error: duality_trace::readers::Error) -> Self {
        let party = if error.is_misuse { Party::User } else { Party::Load };
        Self::new(party, error)
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        Self::misuse(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_is_told_of_misuse_by_the_exit_code() {
        let codes = Party::ALL.map(|party| (party, party.exit_code()));
        let expected = [
            (Party::User, 2),
            (Party::Machine, 1),
            (Party::Subject, 1),
            (Party::Load, 1),
            (Party::Store, 1),
            (Party::Interruption, 1),
        ];
        assert_eq!(codes, expected);
    }

    #[test]
    fn an_error_of_the_system_has_its_place_its_party_and_a_remedy() {
        for (kind, party, remedy) in [
            (ErrorKind::NotFound, Party::User, "x: entity not found: name one that exists"),
            (ErrorKind::StorageFull, Party::Machine, "x: no storage space: make room"),
            (ErrorKind::TimedOut, Party::Machine, "x: timed out"),
        ] {
            let failure = Err::<(), _>(io::Error::from(kind)).at_file("x").unwrap_err();
            assert_eq!((failure.party, &*failure.to_string()), (party, remedy));
        }
    }

    #[test]
    fn a_place_stands_before_the_message_and_the_remedy_behind_it() {
        let failure = Failure::new(Party::Store, "it is full").remedy("empty it").at("redis");
        assert_eq!(failure.to_string(), "redis: it is full: empty it");
    }
}
