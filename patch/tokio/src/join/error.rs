//! A task that ended without an output.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::Id;

type Panic = Box<dyn Any + Send>;

/// The task panicked, or it was aborted or dropped with its runtime.
pub struct JoinError {
    /// The panic. The mutex is never locked: it makes the error `Sync`.
    panic: Option<Mutex<Panic>>,
    id: Id,
}

impl JoinError {
    pub(crate) fn cancelled(id: Id) -> Self {
        Self { panic: None, id }
    }

    pub(crate) fn panicked(id: Id, panic: Panic) -> Self {
        Self { panic: Some(Mutex::new(panic)), id }
    }

    /// Whether the task was aborted or dropped.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.panic.is_none()
    }

    /// Whether the task panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.panic.is_some()
    }

    /// The panic of the task.
    ///
    /// # Panics
    ///
    /// If the task did not panic.
    #[must_use]
    #[track_caller]
    pub fn into_panic(self) -> Panic {
        self.try_into_panic().expect("`JoinError` reason is not a panic.")
    }

    /// The panic of the task, or this error if the task did not panic.
    ///
    /// # Errors
    ///
    /// This error, if the task did not panic.
    pub fn try_into_panic(self) -> Result<Panic, Self> {
        match self.panic {
            Some(panic) => Ok(panic.into_inner().unwrap_or_else(PoisonError::into_inner)),
            None => Err(self),
        }
    }

    /// The number of the task.
    #[must_use]
    pub fn id(&self) -> Id {
        self.id
    }

    /// The message of the panic, if it has one.
    fn message(&self) -> Option<String> {
        let panic = self.panic.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned())
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, .. } = self;
        match (self.is_panic(), self.message()) {
            (false, _) => write!(formatter, "task {id} was cancelled"),
            (true, Some(message)) => {
                write!(formatter, "task {id} panicked with message {message:?}")
            }
            (true, None) => write!(formatter, "task {id} panicked"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, .. } = self;
        match (self.is_panic(), self.message()) {
            (false, _) => write!(formatter, "JoinError::Cancelled({id:?})"),
            (true, Some(message)) => {
                write!(formatter, "JoinError::Panic({id:?}, {message:?}, ...)")
            }
            (true, None) => write!(formatter, "JoinError::Panic({id:?}, ...)"),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> Self {
        let message = if error.is_panic() { "task panicked" } else { "task was cancelled" };
        Self::other(message)
    }
}
