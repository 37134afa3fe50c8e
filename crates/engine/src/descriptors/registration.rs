//! Registers descriptors with epoll, and waits for their events.

use libc::{EPOLLET, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP};

use crate::descriptors::facts;
use crate::descriptors::registry::{Descriptor, Direction};
use crate::kernel::bell::EPOLL;
use crate::kernel::clock::Nanoseconds;
use crate::kernel::lock::Locked;
use crate::kernel::sys::{self, error, failed, sys};
use crate::schedule::edges::{Seen, Side};
use crate::schedule::scheduler::park;
use crate::schedule::waiter::{Reason, State};
use crate::schedule::worker::{current, waiter};

impl Descriptor {
    /// Makes sure that epoll reports the descriptor's events.
    ///
    /// # Errors
    ///
    /// epoll refuses: `EPERM` means a file that is always ready, `EBADF` means no file.
    pub(crate) fn register(&self, number: usize) -> Result<(), isize> {
        if self.has(facts::REGISTERED) {
            return Ok(());
        }
        if self.has(facts::REFUSED) {
            return Err(error(libc::EPERM));
        }
        // Set first, because the code that closes the number looks at it afterwards, see `gone`.
        self.set(facts::REGISTERED);
        let events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET;
        let event = libc::epoll_event { events: events as u32, u64: data(number, self) };
        let control =
            |operation| sys!(SYS_epoll_ctl, EPOLL.get(), operation, number as i32, &event);
        let mut result = control(libc::EPOLL_CTL_ADD);
        if result == error(libc::EEXIST) {
            // A former descriptor of this number and this file.
            result = control(libc::EPOLL_CTL_MOD);
        }
        if !failed(result) {
            return Ok(());
        }
        self.clear(facts::REGISTERED);
        if result != sys::EBADF {
            self.set(facts::REFUSED);
        }
        Err(result)
    }

    /// Removes the descriptor from epoll.
    pub(crate) fn unregister(&self, number: usize) {
        let event = libc::epoll_event { events: 0, u64: 0 };
        let operation = libc::EPOLL_CTL_DEL;
        sys!(SYS_epoll_ctl, EPOLL.get(), operation, number as i32, &event);
        self.clear(facts::REGISTERED);
    }

    /// Parks the current thread until another attempt is worthwhile. `None` if epoll does not
    /// report the descriptor.
    pub(crate) fn wait(
        &'static self,
        locked: &mut Locked,
        number: usize,
        direction: Direction,
        deadline: Nanoseconds,
        seen: Seen,
    ) -> Option<Reason> {
        if self.register(number).is_err() {
            return None;
        }
        Some(self.wait_in_line(locked, number, direction, deadline, seen))
    }

    /// Parks the current thread until another thread wakes it, whether or not epoll reports the
    /// descriptor.
    pub(crate) fn wait_in_line(
        &'static self,
        locked: &mut Locked,
        number: usize,
        direction: Direction,
        deadline: Nanoseconds,
        seen: Seen,
    ) -> Reason {
        if self.seen(direction) != seen {
            return Reason::Woken;
        }
        let (waiter, side) = (waiter(), self.side(direction));
        waiter.waits_for.set(number);
        side.add(locked, waiter);
        let reason = park(locked, deadline);
        match reason {
            Reason::Suspended => self.keep_task(side),
            Reason::Woken | Reason::TimedOut | Reason::Interrupted => side.remove(locked, waiter),
        }
        let waits = waiter.state.get(locked.held()) == State::Parked;
        assert!(waits == (reason == Reason::Suspended), "a call goes on before its wait is over");
        reason
    }

    /// The current call's task waits for this file alone. A later file with this number does not
    /// count.
    fn keep_task(&'static self, side: &'static Side) {
        if let Some(task) = current().task.get() {
            task.waits_in(side, self.generation());
        }
    }
}

/// The data of a descriptor's events.
fn data(number: usize, descriptor: &Descriptor) -> u64 {
    u64::from(descriptor.generation()) << 32 | u64::from(number as u32)
}
