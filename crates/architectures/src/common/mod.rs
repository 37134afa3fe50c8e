//! The parts that architectures share: the service and its listeners, back-pressure, child
//! processes, signals.

pub mod accept;
pub mod accept_queue;
pub(crate) mod acceptor;
pub mod addresses;
pub mod admission;
pub mod children;
pub mod footprint;
pub mod losses;
pub mod options;
pub mod pressure;
pub mod refusals;
pub mod served;
pub mod server;
pub mod signals;
pub mod usage;
pub mod wait_queue;
pub(crate) mod waiters;
