//! The kernel's interface, and what stands on nothing else.
//!
//! ```text
//!   sys: raw system calls     user: the program's memory     clock: the vDSO's time
//!   lock: the one lock        memory: the heap               kernel_thread: clone
//! ```
//!
//! It knows nothing of threads, descriptors or signals of the program.

pub(crate) mod clock;
pub(crate) mod kernel_thread;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod sys;
pub(crate) mod user;
