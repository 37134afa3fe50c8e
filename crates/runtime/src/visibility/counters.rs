//! The counters. The list below and docs/visibility.md define each counter.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one kernel thread counts and others may read.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Only the owner adds, so a load and a store are enough.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.value().wrapping_add(amount), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Corrects the counts of an owner that died between two counts.
    fn raise_to(&self, value: u64) {
        self.0.store(self.value().max(value), Ordering::Relaxed);
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// The counters of one kernel thread.
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
        }

        /// The counters of all kernel threads together, since the process began.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Totals {
            pub(super) fn include(&mut self, counters: &Counters) {
                $(self.$name = self.$name.wrapping_add(counters.$name.value());)+
            }

            /// The counters with their names, in the order of the documentation.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

counters! {
    /// Tasks that began: connections, tasks that they spawned, and the architecture's own.
    tasks_created,
    /// Tasks that ended.
    tasks_ended,
    /// Turns that a loop gave to a task: a resumed fiber, or a polled future. 0 in the block world,
    /// where the kernel switches.
    switches,
    /// Stage boundaries that tasks passed (`task::stage`).
    stages,
    /// Connections that accept(2) returned.
    connections_accepted,
    /// Connections with a service that began. Other connections wait in a list or an accept queue
    /// of the server.
    connections_begun,
    /// Connections with a service that ended.
    connections_ended,
    /// Requests with an answer that tells of a failure of the service.
    requests_failed,
    /// Rounds of the loops, each with one question to the poller.
    poller_rounds,
    /// Events that the pollers reported.
    poller_events,
    /// The number of watched descriptors at each question to a poller, summed over all rounds.
    /// Divided by `poller_rounds`, it is their average.
    descriptors_watched,
    /// Attempts of an operation on a socket: system calls that move bytes, accept or connect.
    attempts,
    /// Attempts that would have blocked. 0 in the block world, where attempts block.
    would_blocks,
    /// Waits for a mutex or a semaphore that another task had.
    lock_waits,
    /// Mutexes and semaphores that were taken, with or without a wait.
    locks,
    /// Waits for a notification, or for a channel.
    condition_waits,
    /// Idle threads of a pool or stage that were woken for work. Each is a futex(2).
    threads_woken,
    /// Kernel threads that began to run tasks, helpers included.
    threads_created,
    /// Child processes that began.
    processes_created,
    /// Sockets that a loop began to watch. For epoll, that is one epoll_ctl(2).
    registrations,
    /// System calls for sockets other than attempts: options, modes, poll(2) under a deadline.
    other_calls,
    /// Pieces of work that were given to helper threads. 0 in the block world, where such work runs
    /// in place.
    offloads,
    /// Files of a store that were opened.
    stores_opened,
    /// Bytes that were read from sockets.
    read_bytes,
    /// Bytes that were written to sockets, sendfile(2) included.
    written_bytes,
    /// Nanoseconds in which a loop was idle. 0 in the block world, where the kernel knows.
    idle_ns,
    /// Bytes of the state of tasks: the values that the compiler keeps across a service's waits.
    task_state_allocated_bytes,
    /// Bytes of the stacks of tasks, which are kernel threads or user-level threads. The bytes are
    /// reserved. Only touched pages take memory.
    task_stack_allocated_bytes,
}

impl Totals {
    /// Tasks that are alive.
    #[must_use]
    pub fn tasks_now(&self) -> u64 {
        self.tasks_created.saturating_sub(self.tasks_ended)
    }

    /// Connections that were accepted and have not ended.
    #[must_use]
    pub fn connections_now(&self) -> u64 {
        self.connections_accepted.saturating_sub(self.connections_ended)
    }
}

impl Counters {
    /// Work that began on a dead kernel thread counts as ended.
    pub(super) fn settle(&self) {
        self.tasks_ended.raise_to(self.tasks_created.value());
        self.connections_ended.raise_to(self.connections_begun.value());
    }
}
