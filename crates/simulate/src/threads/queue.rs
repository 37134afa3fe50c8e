//! A queue of events of a host's thread: what epoll(7) is to a kernel thread.
//!
//! Sockets are those of the simulation. Other descriptors, such as the eventfd(2) by which other
//! threads reach a loop, are the kernel's, and are asked each time.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duality_poller::{Direction, Event, Poller, Token};
use duality_runtime::threads::{self, Threads, Watcher, kernel_says_ready};

use super::HostThreads;
use crate::machine::lock;

/// See the [module](self).
pub(crate) struct Queue {
    threads: Arc<HostThreads>,
    number: usize,
    /// The descriptors of the kernel that are armed to be read.
    kernels: Vec<(RawFd, Token)>,
    /// The drains of the host that the loop has been told of.
    drains: AtomicU64,
}

impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Queue").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Queue {
    pub(crate) fn new(threads: Arc<HostThreads>) -> Self {
        let machine = threads.machine();
        let number = lock(&machine.network).add_queue(machine.host);
        Self { threads, number, kernels: Vec::new(), drains: AtomicU64::new(0) }
    }

    /// Sleeps until the queue has events, one of the `kernels` is readable, the host drains, or
    /// until `deadline`.
    fn sleep(
        &self,
        kernels: &[(RawFd, Token)],
        deadline: Option<Instant>,
        events: &mut Vec<Event>,
    ) {
        let machine = self.threads.machine();
        let told = self.drains.load(Ordering::Relaxed);
        let has_events = || {
            lock(&machine.network).has_events(machine.host, self.number)
                || self.threads.drains.load(Ordering::Relaxed) != told
                || kernels.iter().any(|(number, _)| kernel_says_ready(*number, Direction::Read))
        };
        threads::wait(&*self.threads, "events", &has_events, deadline);
        // Each drain ends one sleep, and not all later ones.
        self.drains.store(self.threads.drains.load(Ordering::Relaxed), Ordering::Relaxed);
        lock(&machine.network).events(machine.host, self.number, events);
    }
}

impl Poller for Queue {
    fn arm(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        direction: Direction,
    ) -> io::Result<()> {
        let number = descriptor.as_raw_fd();
        let mut net = lock(&self.threads.machine().network);
        if net.socket_of(number).is_some() {
            net.arm(number, self.number, token, direction);
        } else if direction == Direction::Read && !self.kernels.contains(&(number, token)) {
            self.kernels.push((number, token));
        }
        Ok(())
    }

    fn forget(&mut self, descriptor: BorrowedFd<'_>, token: Token) {
        self.kernels.retain(|(_, other)| *other != token);
        Watcher::forget(self, descriptor, token);
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let deadline = timeout.and_then(|timeout| self.threads.now().checked_add(timeout));
        let kernels = std::mem::take(&mut self.kernels);
        self.sleep(&kernels, deadline, events);
        self.kernels = kernels;
        self.kernels.retain(|&(number, token)| {
            let is_ready = kernel_says_ready(number, Direction::Read);
            if is_ready {
                events.push(Event { token, readable: true, writable: false, hangup: false });
            }
            !is_ready
        });
        Ok(())
    }
}

impl Watcher for Queue {
    fn watch(&self, descriptor: BorrowedFd<'_>, token: Token) {
        let mut net = lock(&self.threads.machine().network);
        net.watch_edges(descriptor.as_raw_fd(), self.number, token);
    }

    fn forget(&self, descriptor: BorrowedFd<'_>, token: Token) {
        let machine = self.threads.machine();
        let mut net = lock(&machine.network);
        net.disarm(descriptor.as_raw_fd(), self.number, token);
        net.forget(machine.host, self.number, token);
    }

    fn wait(&self, interrupt: BorrowedFd<'_>, deadline: Option<Instant>, events: &mut Vec<Event>) {
        self.sleep(&[(interrupt.as_raw_fd(), Token(0))], deadline, events);
    }
}
