//! The servers' counts of their own operations, and the costs of operations.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! operations {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A server's counts of its own operations, as docs/visibility.md defines them. Other
        /// counters are not needed, or come from the kernel.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct Operations {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Operations {
            /// The sum of two servers' counts.
            pub(crate) fn and(&self, other: &Self) -> Self {
                Self { $($name: self.$name + other.$name,)+ }
            }

            /// The counts since `earlier`. `None` if `earlier` has no counts, since then the counts
            /// mean nothing.
            pub fn since(&self, earlier: &Self) -> Option<Self> {
                let counted = Self { $($name: self.$name.saturating_sub(earlier.$name),)+ };
                (counted != Self::default()).then_some(counted)
            }
        }
    };
}

operations! {
    /// Tasks that began.
    tasks_created,
    /// Turns that loops gave to tasks.
    switches,
    /// Connections that were accepted.
    connections_accepted,
    /// How often loops polled their pollers.
    poller_rounds,
    /// The events that pollers reported.
    poller_events,
    /// The number of watched descriptors, summed over all rounds.
    descriptors_watched,
    /// Attempts of an operation on a socket.
    attempts,
    /// Attempts that would have blocked.
    would_blocks,
    /// Locks that were taken.
    locks,
    /// Locks that were waited for.
    lock_waits,
    /// Waits for a notification or a channel.
    condition_waits,
    /// Idle threads of a pool or stage that were woken for work.
    threads_woken,
    /// Kernel threads that began.
    threads_created,
    /// Child processes that began.
    processes_created,
    /// Sockets that loops began to watch.
    registrations,
    /// System calls for sockets that were no attempts.
    other_calls,
    /// Work that was given to helper threads.
    offloads,
    /// Files of a store that were opened.
    stores_opened,
    /// Pages of memory that the kernel gave or copied at their first use.
    page_faults,
    /// How often the load generator waited, until a reply woke it. The lab counts these waits, and
    /// not the server.
    client_waits,
}

/// Unit costs in nanoseconds, by cost and subject: `switch` of `park`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitCosts(pub(crate) BTreeMap<String, BTreeMap<String, f64>>);

impl UnitCosts {
    /// Whether no cost is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The costs that `each` gives: cost, subject and nanoseconds.
    pub fn from<'a>(each: impl IntoIterator<Item = (&'a str, &'a str, f64)>) -> Self {
        let mut all: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for (cost, subject, ns) in each {
            all.entry(cost.to_owned()).or_default().insert(subject.to_owned(), ns);
        }
        Self(all)
    }
}
