//! What the kernel threads of the engine do.
//!
//! ```text
//!   pump: the loop of a worker     more_workers: how they begin and end
//!   helpers, in_place: calls that block     kernel_thread: how either is made
//! ```

pub(crate) mod helpers;
pub(crate) mod in_place;
pub(crate) mod kernel_thread;
pub(crate) mod more_workers;
pub(crate) mod pump;
