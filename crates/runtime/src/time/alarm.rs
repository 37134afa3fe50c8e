//! A poll-style deadline, for crates that give Duality's worlds another library's interface.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::Instant;
use crate::gather::Key;
use crate::world;
use crate::world::gather::{forget_time, move_time, note_time};

/// A future that is ready at a deadline, which may change. Its wait is
/// [gathered](crate::task::gather), in every world.
#[derive(Debug)]
pub struct Alarm {
    /// `None` means never.
    deadline: Option<Instant>,
    /// Whether the deadline is among those of gathered waits.
    is_noted: bool,
}

impl Alarm {
    /// An alarm at `deadline`. `None` means never.
    #[must_use]
    pub const fn new(deadline: Option<Instant>) -> Self {
        Self { deadline, is_noted: false }
    }

    /// Moves the alarm. A task that waits for the alarm is woken at the new deadline, if that task
    /// is of this loop or kernel thread.
    pub fn move_to(&mut self, deadline: Option<Instant>) {
        match deadline {
            Some(deadline) => self.is_noted = self.is_noted && move_time(self.key(), deadline),
            None => self.forget(),
        }
        self.deadline = deadline;
    }

    /// The key is the address. An alarm that moves is woken in vain at its former address.
    fn key(&self) -> Key {
        Key::Future(std::ptr::from_ref(self).addr())
    }

    fn forget(&mut self) {
        if std::mem::take(&mut self.is_noted) {
            forget_time(self.key());
        }
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(deadline) = this.deadline else { return Poll::Pending };
        if world::now() >= deadline {
            return Poll::Ready(());
        }
        this.is_noted = true;
        note_time(this.key(), deadline, context);
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.forget();
    }
}
