//! A value for each event loop, which only the loop's tasks share. Tasks that are kernel threads
//! share one value.

use std::sync::{Arc, PoisonError, RwLock};

use duality_runtime::task;

/// Values that are made when their loop first asks for one.
pub(crate) struct PerLoop<T> {
    /// Indexed by the number of the loop ([`task::group`]).
    values: RwLock<Vec<Arc<T>>>,
}

impl<T> PerLoop<T> {
    /// The value of the running task's loop. If there is none yet, `make` makes it.
    pub(crate) fn here(&self, make: impl Fn() -> T) -> Arc<T> {
        let number = task::group() as usize;
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = values.get(number) {
            return value.clone();
        }
        drop(values);
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        while values.len() <= number {
            values.push(Arc::new(make()));
        }
        values[number].clone()
    }
}

impl<T> Default for PerLoop<T> {
    fn default() -> Self {
        Self { values: RwLock::default() }
    }
}
