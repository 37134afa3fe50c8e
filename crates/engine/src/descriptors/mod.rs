//! The engine's knowledge of the program's descriptors, and of their readiness.
//!
//! ```text
//!   registry, facts, mode ◀─ registration: epoll     ring, request: io_uring
//!   closed: files that outlive their number
//!   engine_files, spare_numbers: the engine's own
//! ```
//!
//! This module wakes waiters by `schedule`, and knows no system call of the program.

pub(crate) mod closed;
pub(crate) mod engine_files;
pub(crate) mod facts;
pub(crate) mod mode;
pub(crate) mod registration;
pub(crate) mod registry;
pub(crate) mod ring;
pub(crate) mod ring_wait;
pub(crate) mod spare_numbers;
