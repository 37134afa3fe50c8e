//! The ends of a task: its number, its handles, and the future that a world runs. This module knows
//! no runtime.

mod error;
mod handles;
mod id;

pub use self::error::JoinError;
pub use self::handles::{AbortHandle, JoinHandle};
pub(crate) use self::handles::{Header, LARGE, Owner, Task, work};
pub use self::id::{Id, id, try_id};
