//! The kernel's interface, and code that needs nothing else.
//!
//! ```text
//!   sys: raw system calls     user: the program's memory     clock: the vDSO's time
//!   lock: the one lock        memory: the heap               elf: segments of objects
//!   cells: when a field may be used      plain: types that any bytes are a value of
//!   frame: registers of a call, and the functions in assembly      bell: ends a worker's sleep
//!   disposition, info: a signal's action and fields      undelivered: signals that have come
//!   attributes: priorities of a kernel thread      settings: what the command gave
//!   stats: counters      assertions: what must hold
//! ```
//!
//! This module knows nothing of threads and descriptors.

pub(crate) mod assertions;
pub(crate) mod attributes;
pub(crate) mod bell;
pub(crate) mod cells;
pub(crate) mod clock;
pub(crate) mod disposition;
pub(crate) mod elf;
pub(crate) mod frame;
pub(crate) mod info;
pub(crate) mod lock;
pub(crate) mod lock_counts;
pub(crate) mod memory;
pub(crate) mod plain;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod sys;
pub(crate) mod undelivered;
pub(crate) mod user;
