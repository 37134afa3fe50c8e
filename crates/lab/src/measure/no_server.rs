//! The reason why a server, or its store, is missing.

use crate::failure::{Failure, Party};

/// The reason, and the outcome of the cell.
#[derive(Debug)]
pub(crate) enum NoServer {
    Unavailable(String),
    Failed(Failure),
}

impl From<Failure> for NoServer {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl NoServer {
    /// The failure, where a server must be available.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Unavailable(reason) => Failure::new(Party::Machine, reason),
            Self::Failed(failure) => failure,
        }
    }
}
