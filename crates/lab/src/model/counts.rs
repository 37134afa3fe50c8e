//! The number of operations in which architectures differ. The server counts the operations, and
//! the model divides the counts by the requests.

use std::ops::{Index, IndexMut};

use crate::record::Measured;

/// An operation that architectures perform differently often, or at different costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A child process begins.
    Process,
    /// A kernel thread begins.
    Thread,
    /// A task of a loop begins.
    Task,
    /// A loop gives a task its turn.
    Turn,
    /// A lock is taken.
    Lock,
    /// A task waits for a lock that another task holds.
    LockWait,
    /// A task waits until another task notifies it.
    ConditionWait,
    /// A kernel thread wakes an idle one of its pool.
    ThreadWoken,
    /// A poller is asked.
    Round,
    /// A poller polls a watched descriptor.
    Watched,
    /// A poller reports an event on a descriptor.
    Event,
    /// An operation on a socket is attempted.
    Attempt,
    /// An attempt would block.
    InVain,
    /// A socket is registered with a poller.
    Registration,
    /// Another system call for a socket.
    OtherCall,
    /// The kernel switches between threads of the server.
    KernelSwitch,
    /// A thread of the server waits, no other work is left, and its processor rests.
    Rest,
    /// A waiting thread is woken from another processor while its own processor is at work.
    Interruption,
    /// Work is given to a helper thread.
    Offload,
    /// A store's file is opened.
    StoreOpened,
    /// A page of memory is used for the first time.
    PageFault,
    /// A reply wakes its client, which sleeps on another processor.
    Wake,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 22] = [
        Self::Process,
        Self::Thread,
        Self::Task,
        Self::Turn,
        Self::Lock,
        Self::LockWait,
        Self::ConditionWait,
        Self::ThreadWoken,
        Self::Round,
        Self::Watched,
        Self::Event,
        Self::Attempt,
        Self::InVain,
        Self::Registration,
        Self::OtherCall,
        Self::KernelSwitch,
        Self::Rest,
        Self::Interruption,
        Self::Offload,
        Self::StoreOpened,
        Self::PageFault,
        Self::Wake,
    ];

    /// The operation's name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "processes",
            Self::Thread => "threads",
            Self::Task => "tasks",
            Self::Turn => "turns",
            Self::Lock => "locks",
            Self::LockWait => "lock waits",
            Self::ConditionWait => "condition waits",
            Self::ThreadWoken => "threads woken",
            Self::Round => "rounds",
            Self::Watched => "watched",
            Self::Event => "events",
            Self::Attempt => "attempts",
            Self::InVain => "in vain",
            Self::Registration => "registrations",
            Self::OtherCall => "other calls",
            Self::KernelSwitch => "kernel switches",
            Self::Rest => "rests",
            Self::Interruption => "interruptions",
            Self::Offload => "offloads",
            Self::StoreOpened => "stores",
            Self::PageFault => "page faults",
            Self::Wake => "wakes",
        }
    }
}

/// The average number of operations of each kind in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts([f64; Operation::ALL.len()]);

impl Counts {
    /// The counts of a cell. `None` if the server does not count (a peer, `handwritten`), or if the
    /// file is older than the counts.
    pub fn of(cell: &Measured) -> Option<Self> {
        let counted = cell.operations?;
        let requests = cell.requests.max(1) as f64;
        let voluntary = cell.voluntary_switches as f64;
        let switches = voluntary + cell.involuntary_switches as f64;
        // A client wakes a waiting thread, on the client's processor. The thread's own processor
        // may be at work then. The probability depends on the number of concurrent requests, and on
        // how busy the server is.
        let others = 1.0 - 1.0 / cell.measured_load.max(1.0);
        let interruptions = voluntary * others * cell.server_cpu_share.clamp(0.0, 1.0);
        let each = |operation| {
            let count = match operation {
                Operation::Process => counted.processes_created,
                Operation::Thread => counted.threads_created,
                Operation::Task => counted.tasks_created,
                Operation::Turn => counted.switches,
                Operation::Lock => counted.locks,
                Operation::LockWait => counted.lock_waits,
                Operation::ConditionWait => counted.condition_waits,
                Operation::ThreadWoken => counted.threads_woken,
                Operation::Round => counted.poller_rounds,
                Operation::Watched => counted.descriptors_watched,
                Operation::Event => counted.poller_events,
                Operation::Attempt => counted.attempts,
                Operation::InVain => counted.would_blocks,
                Operation::Registration => counted.registrations,
                Operation::OtherCall => counted.other_calls,
                Operation::KernelSwitch => return (switches - voluntary) / requests,
                Operation::Rest => return (voluntary - interruptions) / requests,
                Operation::Interruption => return interruptions / requests,
                Operation::Offload => counted.offloads,
                Operation::StoreOpened => counted.stores_opened,
                Operation::PageFault => counted.page_faults,
                Operation::Wake => counted.client_waits,
            };
            count as f64 / requests
        };
        Some(Self(Operation::ALL.map(each)))
    }

    /// The number of descriptors that a poller watches during a round.
    pub fn watched(&self) -> f64 {
        let rounds = self[Operation::Round];
        if rounds > 0.0 { self[Operation::Watched] / rounds } else { 0.0 }
    }

    /// The counts that `each` gives.
    pub fn from(each: impl Fn(Operation) -> f64) -> Self {
        Self(Operation::ALL.map(each))
    }
}

impl Index<Operation> for Counts {
    type Output = f64;

    fn index(&self, operation: Operation) -> &f64 {
        &self.0[operation as usize]
    }
}

impl IndexMut<Operation> for Counts {
    fn index_mut(&mut self, operation: Operation) -> &mut f64 {
        &mut self.0[operation as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Operations;

    #[test]
    fn operations_are_in_the_order_of_their_numbers() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index, "{}", operation.name());
        }
    }

    #[test]
    fn who_counts_nothing_has_no_counts() {
        let before = Operations { attempts: 5, ..Operations::default() };
        assert_eq!(before.since(&before), None);
        let after = Operations { attempts: 7, locks: 1, ..before };
        let since = after.since(&before).unwrap();
        assert_eq!((since.attempts, since.locks, since.switches), (2, 1, 0));
    }
}
