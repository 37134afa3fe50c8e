//! What a descriptor is ready for.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::Poll;

use duality_poller::Direction;
use duality_runtime::net::SimulatedSockets;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::Interest;
use crate::elsewhere::helped;
use crate::watched::Watched;

/// What a descriptor is ready for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready(u8);

impl Ready {
    /// Nothing.
    pub const EMPTY: Self = Self(0);
    /// Bytes to read.
    pub const READABLE: Self = Self(1);
    /// Room to write.
    pub const WRITABLE: Self = Self(2);
    /// The end of input.
    pub const READ_CLOSED: Self = Self(4);
    /// The end of output.
    pub const WRITE_CLOSED: Self = Self(8);
    /// Urgent bytes.
    pub const PRIORITY: Self = Self(16);
    /// An error.
    pub const ERROR: Self = Self(32);
    /// Everything.
    pub const ALL: Self = Self(63);

    /// Whether this is nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// Whether a read does not wait.
    #[must_use]
    pub fn is_readable(self) -> bool {
        self.0 & (Self::READABLE.0 | Self::READ_CLOSED.0) != 0
    }

    /// Whether a write does not wait.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self.0 & (Self::WRITABLE.0 | Self::WRITE_CLOSED.0) != 0
    }

    /// Whether the input has ended.
    #[must_use]
    pub fn is_read_closed(self) -> bool {
        self.0 & Self::READ_CLOSED.0 != 0
    }

    /// Whether the output has ended.
    #[must_use]
    pub fn is_write_closed(self) -> bool {
        self.0 & Self::WRITE_CLOSED.0 != 0
    }

    /// Whether there are urgent bytes.
    #[must_use]
    pub fn is_priority(self) -> bool {
        self.0 & Self::PRIORITY.0 != 0
    }

    /// Whether there is an error.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 & Self::ERROR.0 != 0
    }

    /// Waits until one of the interests comes true.
    pub(crate) async fn awaited(descriptor: &Watched, interest: Interest) -> io::Result<Self> {
        poll_fn(|context| {
            let ready = Self::now(descriptor.as_fd(), interest)?;
            if !ready.is_empty() {
                return Poll::Ready(Ok(ready));
            }
            let directions = [
                (interest.is_readable(), Direction::Read),
                (interest.is_writable(), Direction::Write),
            ];
            for (is_awaited, direction) in directions {
                let polled = || descriptor.poll_ready(context, direction);
                if is_awaited && helped(descriptor, context, direction, polled())?.is_ready() {
                    return Poll::Ready(Self::now(descriptor.as_fd(), interest));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// What poll(2) reports now, as far as `interest` asks for it.
    pub(crate) fn now(descriptor: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        if let Some(ready) = Self::simulated(descriptor, interest) {
            return Ok(ready);
        }
        let pairs = [
            (interest.is_readable(), PollFlags::IN | PollFlags::RDHUP),
            (interest.is_writable(), PollFlags::OUT),
            (interest.is_priority(), PollFlags::PRI),
        ];
        let asked = pairs.into_iter().filter(|(is_asked, _)| *is_asked);
        let asked = asked.fold(PollFlags::empty(), |all, (_, flags)| all | flags);
        let mut polled = [PollFd::from_borrowed_fd(descriptor, asked)];
        rustix::event::poll(&mut polled, Some(&Timespec::default()))?;
        Ok(Self::of(polled[0].revents(), interest))
    }

    /// What a simulated socket is ready for. `None` for other descriptors.
    fn simulated(descriptor: BorrowedFd<'_>, interest: Interest) -> Option<Self> {
        let sockets = SimulatedSockets::here()?;
        let is_ready = |direction| sockets.is_ready(descriptor, direction);
        let mut ready = Self::EMPTY;
        if interest.is_readable() && is_ready(Direction::Read)? {
            ready |= Self::READABLE;
        }
        if interest.is_writable() && is_ready(Direction::Write)? {
            ready |= Self::WRITABLE;
        }
        Some(ready)
    }

    /// What poll(2) reports, as far as `interest` asks for it.
    fn of(flags: PollFlags, interest: Interest) -> Self {
        let closed = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        let pairs = [
            (interest.is_readable(), PollFlags::IN, Self::READABLE),
            (interest.is_readable(), closed, Self::READ_CLOSED),
            (interest.is_writable(), PollFlags::OUT, Self::WRITABLE),
            (interest.is_writable(), PollFlags::HUP | PollFlags::ERR, Self::WRITE_CLOSED),
            (interest.is_priority(), PollFlags::PRI, Self::PRIORITY),
            (true, PollFlags::ERR, Self::ERROR),
        ];
        let set = pairs.into_iter().filter(|(asked, flag, _)| *asked && flags.intersects(*flag));
        set.fold(Self::EMPTY, |all, (_, _, ready)| all | ready)
    }
}

impl BitOr for Ready {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl BitAnd for Ready {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for Ready {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ready")
            .field("is_readable", &self.is_readable())
            .field("is_writable", &self.is_writable())
            .field("is_read_closed", &self.is_read_closed())
            .field("is_write_closed", &self.is_write_closed())
            .field("is_error", &self.is_error())
            .finish()
    }
}
