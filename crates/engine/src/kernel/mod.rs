//! The kernel's interface, and code that needs nothing else.
//!
//! ```text
//!   sys: raw system calls     user: the program's memory     clock: the vDSO's time
//!   lock: the one lock        memory: the heap               elf: segments of objects
//!   cells: when a field may be used      plain: types that any bytes are a value of
//!   attributes: priorities of a kernel thread      assertions: what must hold
//! ```
//!
//! This module knows nothing of threads, descriptors or signals. From `entry`, it uses the
//! functions in assembly.

pub(crate) mod assertions;
pub(crate) mod attributes;
pub(crate) mod cells;
pub(crate) mod clock;
pub(crate) mod elf;
pub(crate) mod lock;
pub(crate) mod lock_counts;
pub(crate) mod memory;
pub(crate) mod plain;
pub(crate) mod sys;
pub(crate) mod user;
