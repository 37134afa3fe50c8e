//! The kinds of waits of a task.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use duality_poller::Direction;
use rustix::net::getpeername;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The wait of a task, or the state of a task without a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The task has not run yet.
    Begin,
    /// The task runs, or (under a loop) could run.
    Nothing,
    /// Reading from a descriptor, or accepting at one.
    Read(RawFd),
    /// Writing to a descriptor, or connecting it.
    Write(RawFd),
    /// A time.
    Time,
    /// A mutex or a semaphore.
    Lock,
    /// A notification.
    Notify,
    /// A value from a channel.
    Receive,
    /// Room in a channel.
    Send,
    /// The end of a spawned task.
    Join,
    /// Work on a helper thread.
    Offload,
    /// The next turn, because the task has yielded.
    Turn,
    /// A future of another library.
    Foreign,
    /// Several things at once, by [`gather`](crate::task::gather).
    Several,
}

const DESCRIPTOR: u32 = (1 << 28) - 1;

impl Wait {
    #[inline]
    pub(crate) const fn descriptor(direction: Direction, descriptor: RawFd) -> Self {
        match direction {
            Direction::Read => Self::Read(descriptor),
            Direction::Write => Self::Write(descriptor),
        }
    }

    /// The wait as one small word, which is not 0. A descriptor of more than 28 bits is cut. Linux
    /// allows no more than 2^30 in theory, and 2^20 by default.
    #[inline]
    pub(crate) const fn pack(self) -> u32 {
        let (kind, detail) = match self {
            Self::Begin => (1, 0),
            Self::Nothing => (2, 0),
            Self::Read(descriptor) => (3, descriptor),
            Self::Write(descriptor) => (4, descriptor),
            Self::Time => (5, 0),
            Self::Lock => (6, 0),
            Self::Notify => (7, 0),
            Self::Receive => (8, 0),
            Self::Send => (9, 0),
            Self::Join => (10, 0),
            Self::Offload => (11, 0),
            Self::Turn => (12, 0),
            Self::Foreign => (13, 0),
            Self::Several => (14, 0),
        };
        (kind << 28) | (detail as u32 & DESCRIPTOR)
    }

    pub(crate) const fn unpack(word: u32) -> Option<Self> {
        let detail = (word & DESCRIPTOR) as RawFd;
        Some(match word >> 28 {
            1 => Self::Begin,
            2 => Self::Nothing,
            3 => Self::Read(detail),
            4 => Self::Write(detail),
            5 => Self::Time,
            6 => Self::Lock,
            7 => Self::Notify,
            8 => Self::Receive,
            9 => Self::Send,
            10 => Self::Join,
            11 => Self::Offload,
            12 => Self::Turn,
            13 => Self::Foreign,
            14 => Self::Several,
            _ => return None,
        })
    }
}

/// The peer of the socket that a task waits for, and therefore holds. `process` is this process or
/// its child. At worst, the number has come to mean another socket in the meantime.
pub(crate) fn peer(wait: Wait, process: Pid) -> Option<SocketAddr> {
    let (Wait::Read(descriptor) | Wait::Write(descriptor)) = wait else { return None };
    let peer = if process == getpid() {
        // SAFETY: if the number is no longer valid, the kernel says so. The call changes nothing.
        getpeername(unsafe { BorrowedFd::borrow_raw(descriptor) })
    } else {
        // If the kernel forbids a look into another process, the peer is unknown.
        let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
        getpeername(pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty()).ok()?)
    };
    SocketAddr::try_from(peer.ok()??).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_survives_packing() {
        use Wait::{
            Begin, Foreign, Join, Lock, Nothing, Notify, Offload, Read, Receive, Send, Time, Turn,
            Write,
        };
        let all = [
            Begin,
            Nothing,
            Read(0),
            Read(77),
            Write(DESCRIPTOR as RawFd),
            Time,
            Lock,
            Notify,
            Receive,
            Send,
            Join,
            Offload,
            Turn,
            Foreign,
        ];
        for wait in all {
            assert_eq!(Wait::unpack(wait.pack()), Some(wait));
        }
        assert_eq!(Wait::unpack(0), None);
    }
}
