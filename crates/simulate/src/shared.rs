//! What the driver of a simulation and its tasks share.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::faults::Faults;
use crate::machine::SharedNetwork;
use crate::violation::Violation;

/// How tasks of hosts wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// As state machines: the world suspend.
    #[default]
    Suspend,
    /// On stacks: the world park.
    Park,
}

pub(crate) type Task = Pin<Box<dyn Future<Output = Result<(), Violation>>>>;

/// What a host runs at each start.
#[derive(Clone)]
pub(crate) enum Main {
    /// The first task of a loop.
    Task(Arc<dyn Fn() -> Task + Send + Sync>),
    /// The main thread of a program.
    Thread(Arc<dyn Fn() -> Result<(), Violation> + Send + Sync>),
}

/// What a task asks of the driver, which does it between two turns.
pub(crate) enum Order {
    Start { host: usize, main: Main, waits: Waits, may_panic: bool },
    Crash { host: usize },
    Restart { host: usize, after: Duration },
    Drain { host: usize },
    Fail(String),
}

/// What the driver and the tasks of a simulation share.
pub(crate) struct Shared {
    pub(crate) network: SharedNetwork,
    orders: Mutex<Vec<Order>>,
    /// For each host: how its main has ended, and the wakers of those that wait for it.
    ends: Mutex<Vec<End>>,
    pub(crate) waits: Waits,
    pub(crate) faults: Faults,
}

#[derive(Default)]
pub(crate) struct End {
    pub(crate) outcome: Option<Result<(), Violation>>,
    pub(crate) waiters: Vec<Waker>,
    /// The number of tasks on the host.
    pub(crate) tasks: usize,
}

impl Shared {
    pub(crate) fn new(network: SharedNetwork, waits: Waits, faults: Faults) -> Self {
        let (orders, ends) = (Mutex::default(), Mutex::default());
        Self { network, orders, ends, waits, faults }
    }

    pub(crate) fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn order(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }

    pub(crate) fn with_end<R>(&self, host: usize, use_end: impl FnOnce(&mut End) -> R) -> R {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.len() <= host {
            ends.resize_with(host + 1, End::default);
        }
        use_end(&mut ends[host])
    }
}
