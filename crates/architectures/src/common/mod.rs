//! The parts that architectures share: the service and its listeners, back-pressure, child
//! processes, signals.

pub mod accept;
pub mod accept_queue;
pub mod addresses;
pub mod admission;
pub mod children;
pub(crate) mod door;
pub mod footprint;
pub mod line;
pub mod losses;
pub mod options;
pub mod pressure;
pub mod refusals;
pub mod served;
pub mod server;
pub mod signals;
pub mod usage;
pub(crate) mod waiters;
