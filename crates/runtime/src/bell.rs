//! A doorbell for a loop that is not this crate's own: how it hears of a drain, and of what other kernel
//! threads have done for it.
//!
//! It is the bell that each [`EventLoop`](crate::event_loop::EventLoop) has; a loop written by hand
//! watches the descriptor, silences it when it becomes readable, and then looks what has changed.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::event_loop::remote::{self, Claim};

/// A descriptor that becomes readable when the process is asked to drain, and when a [`Ringer`] rings.
pub struct Bell {
    claim: Claim,
}

impl fmt::Debug for Bell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bell").finish_non_exhaustive()
    }
}

impl Bell {
    /// A bell of its own for one loop.
    ///
    /// # Errors
    ///
    /// When no descriptor is left for it, or too many loops are alive (1,023).
    pub fn new() -> io::Result<Self> {
        Ok(Self { claim: remote::claim()? })
    }

    /// What rings this bell.
    #[must_use]
    pub fn ringer(&self) -> Ringer {
        Ringer { lane: self.claim.number() }
    }

    /// Makes it ready to ring again. What was rung for is to be looked at afterwards, so that nothing is
    /// missed.
    pub fn silence(&self) {
        // Nobody sends this loop messages: it has no task to name.
        drop(self.claim.take());
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.claim.bell()
    }
}

/// Rings a bell from any kernel thread. Once the bell is gone it rings in vain, or, spuriously, the bell
/// of a later loop.
#[derive(Clone, Copy, Debug)]
pub struct Ringer {
    lane: u16,
}

impl Ringer {
    /// Rings.
    pub fn ring(self) {
        remote::ring(self.lane);
    }
}

#[cfg(test)]
mod tests {
    use duality_poller::{Direction, Kind, Token};

    use super::*;

    #[test]
    fn a_bell_rings_until_it_is_silenced_and_then_again() {
        let bell = Bell::new().unwrap();
        let mut poller = Kind::Poll.open().unwrap();
        let mut events = Vec::new();
        for _ in 0..2 {
            let ringer = bell.ringer();
            std::thread::spawn(move || ringer.ring()).join().unwrap();
            poller.arm(bell.as_fd(), Token(0), Direction::Read).unwrap();
            poller.wait(None, &mut events).unwrap();
            assert!(events[0].readable);
            bell.silence();
            poller.arm(bell.as_fd(), Token(0), Direction::Read).unwrap();
            poller.wait(Some(std::time::Duration::ZERO), &mut events).unwrap();
            assert!(events.is_empty());
        }
    }
}
