//! Mutual exclusion that may be held across a wait.

use std::ops::{Deref, DerefMut};
use std::sync::{self, TryLockError};

use super::semaphore::{Permit, Semaphore};

/// A value that one task at a time can use, also while it waits for something else.
pub struct Mutex<T> {
    turn: Semaphore,
    /// Never contended: whoever locks it has the turn.
    value: sync::Mutex<T>,
}

impl<T> Mutex<T> {
    /// A mutex that holds `value`.
    pub const fn new(value: T) -> Self {
        Self { turn: Semaphore::new(1), value: sync::Mutex::new(value) }
    }

    /// Waits for the turn and takes it. A panic while it is held gives it back, with the value as it is.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        self.hold(self.turn.acquire().await)
    }

    /// Takes the turn if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.turn.try_acquire().map(|turn| self.hold(turn))
    }

    fn hold<'a>(&'a self, turn: Permit<'a>) -> MutexGuard<'a, T> {
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => unreachable!("the permit is the turn"),
        };
        MutexGuard { value, _turn: turn }
    }
}

/// The turn at a [`Mutex`], given back when it is dropped.
pub struct MutexGuard<'a, T> {
    // Fields are dropped in order: the value is free before the next one has the turn.
    value: sync::MutexGuard<'a, T>,
    _turn: Permit<'a>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
