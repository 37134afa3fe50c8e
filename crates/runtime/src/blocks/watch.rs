//! What tells a reactor of its descriptors: epoll(7), or the network of a simulation.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use duality_poller::{Direction, Event, Token};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::threads::{self, Watcher};

/// The data of the wakeup's events. The data of sources count from 0.
pub(super) const WAKEUP: u64 = u64::MAX;

/// An edge-triggered queue of events.
pub(super) enum Watch {
    Kernel(OwnedFd),
    Simulated(Box<dyn Watcher>),
}

impl Watch {
    /// A queue that a `wakeup` interrupts.
    pub(super) fn new(wakeup: BorrowedFd<'_>) -> io::Result<Self> {
        if let Some(threads) = threads::here() {
            return Ok(Self::Simulated(threads.watcher()));
        }
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, wakeup, EventData::new_u64(WAKEUP), EventFlags::IN)?;
        Ok(Self::Kernel(epoll))
    }

    /// Watches both directions of a descriptor.
    pub(super) fn add(&self, descriptor: BorrowedFd<'_>, source: usize) -> io::Result<()> {
        match self {
            Self::Kernel(epoll) => {
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                let data = EventData::new_u64(source as u64);
                epoll::add(epoll, descriptor, data, flags)?;
            }
            Self::Simulated(watcher) => watcher.watch(descriptor, Token(source as u32)),
        }
        Ok(())
    }

    pub(super) fn delete(&self, descriptor: BorrowedFd<'_>, source: usize) {
        match self {
            Self::Kernel(epoll) => drop(epoll::delete(epoll, descriptor)),
            Self::Simulated(watcher) => watcher.forget(descriptor, Token(source as u32)),
        }
    }

    /// Sleeps until there are events, or until `until`.
    pub(super) fn wait(
        &self,
        wakeup: BorrowedFd<'_>,
        until: Option<Instant>,
        events: &mut Vec<epoll::Event>,
    ) {
        match self {
            Self::Kernel(epoll) => {
                let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
                let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
                let room = rustix::buffer::spare_capacity(events);
                match epoll::wait(epoll, room, limit.as_ref()) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => panic!("an epoll descriptor is waited for in vain: {error}"),
                }
            }
            Self::Simulated(watcher) => await_simulated(&**watcher, wakeup, until, events),
        }
    }
}

#[cold]
fn await_simulated(
    watcher: &dyn Watcher,
    wakeup: BorrowedFd<'_>,
    until: Option<Instant>,
    events: &mut Vec<epoll::Event>,
) {
    let mut come = Vec::new();
    watcher.wait(wakeup, until, &mut come);
    events.extend(come.into_iter().map(|Event { token, readable, writable, .. }| {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, readable);
        flags.set(EventFlags::OUT, writable);
        epoll::Event { flags, data: EventData::new_u64(token.0.into()) }
    }));
    if threads::kernel_says_ready(wakeup.as_raw_fd(), Direction::Read) {
        let data = EventData::new_u64(WAKEUP);
        events.push(epoll::Event { flags: EventFlags::IN, data });
    }
}
