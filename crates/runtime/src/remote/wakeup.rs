//! A wakeup for a loop outside of this crate. The wakeup tells the loop of a drain, and of other
//! kernel threads' work for the loop.
//!
//! The wakeup is the inbox of an [`EventLoop`](crate::event_loop::EventLoop), without messages. A
//! loop written by hand watches the descriptor, clears it when it becomes readable, and then checks
//! for changes.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::{LoopId, OwnInbox};

/// A descriptor that becomes readable when the process is asked to drain, and when a
/// [`WakeupSender`] sends.
pub struct Wakeup {
    inbox: OwnInbox,
}

impl fmt::Debug for Wakeup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Wakeup").finish_non_exhaustive()
    }
}

impl Wakeup {
    /// A wakeup for one loop.
    ///
    /// # Errors
    ///
    /// If no descriptor is left for the wakeup, or too many loops are alive (1,023).
    pub fn new() -> io::Result<Self> {
        Ok(Self { inbox: super::take_inbox()? })
    }

    /// The handle that makes this wakeup readable.
    #[must_use]
    pub fn sender(&self) -> WakeupSender {
        WakeupSender { id: self.inbox.id() }
    }

    /// Makes the descriptor unreadable. Clear it first, and check for changes afterwards. A change
    /// in between makes the descriptor readable again.
    pub fn clear(&self) {
        // There are no messages, because this loop has no task with a name.
        drop(self.inbox.take());
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.event()
    }
}

/// Makes a [`Wakeup`] readable, from any kernel thread. Once the wakeup is gone, a send does
/// nothing.
#[derive(Clone, Copy, Debug)]
pub struct WakeupSender {
    id: LoopId,
}

impl WakeupSender {
    /// Makes the wakeup readable.
    pub fn send(self) {
        super::interrupt(self.id);
    }
}

#[cfg(test)]
mod tests {
    use duality_poller::{Direction, Kind, Token};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Other tests take inboxes too, so a later wakeup may have another number. In most of many
    /// rounds it has the same one.
    #[test]
    fn a_sender_does_not_disturb_a_later_wakeup() {
        for _ in 0..100 {
            let gone = Wakeup::new().unwrap().sender();
            let later = Wakeup::new().unwrap();
            gone.send();
            let polled = &mut [PollFd::new(&later, PollFlags::IN)];
            assert_eq!(poll(polled, Some(&Timespec::default())).unwrap(), 0);
        }
    }

    #[test]
    fn a_wakeup_is_readable_until_it_is_cleared_and_then_again() {
        let wakeup = Wakeup::new().unwrap();
        let mut poller = Kind::Poll.open().unwrap();
        let mut events = Vec::new();
        for _ in 0..2 {
            let sender = wakeup.sender();
            std::thread::spawn(move || sender.send()).join().unwrap();
            poller.arm(wakeup.as_fd(), Token(0), Direction::Read).unwrap();
            poller.wait(None, &mut events).unwrap();
            assert!(events[0].readable);
            wakeup.clear();
            poller.arm(wakeup.as_fd(), Token(0), Direction::Read).unwrap();
            poller.wait(Some(std::time::Duration::ZERO), &mut events).unwrap();
            assert!(events.is_empty());
        }
    }
}
