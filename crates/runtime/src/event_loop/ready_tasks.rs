//! The ready tasks of a host, as a simulation sees them.

use std::fmt;

use super::tasks::Tasks;
use crate::remote::TaskName;

/// The ready tasks of a host, of which one has the next turn. The first one has waited longest.
pub struct ReadyTasks<'h>(pub(crate) &'h Tasks);

impl fmt::Debug for ReadyTasks<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.numbers()).finish()
    }
}

impl ReadyTasks<'_> {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.ready()
    }

    /// The number of each task, which no other task of the host has. `None` for a task that has
    /// ended since it was woken.
    pub fn numbers(&self) -> impl Iterator<Item = Option<u32>> {
        (0..self.count()).map(|place| self.0.ready_name(place).map(TaskName::serial))
    }
}
