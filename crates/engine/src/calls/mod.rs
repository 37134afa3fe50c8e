//! The engine's version of each system call, in one file for each family. Each row of
//! `entry/table.rs` leads to a function here.
//!
//! ```text
//!   transfer positioned receive connections attempts   bytes
//!   files mappings task_folder                         numbers, memory, /proc
//!   polling select masked rings socket_timeouts        waits
//!   futex buckets shared_memory rseq                   locks and joins
//!   processes children threads attributes clocks       lives
//!   signals credentials namespaces                     masks, users
//! ```
//!
//! A call reads and writes the program's memory by `kernel/user.rs` alone, and waits by `schedule`.

pub(crate) mod attempts;
pub(crate) mod attributes;
pub(crate) mod buckets;
pub(crate) mod children;
pub(crate) mod clocks;
pub(crate) mod connections;
pub(crate) mod credentials;
pub(crate) mod files;
pub(crate) mod futex;
pub(crate) mod mappings;
pub(crate) mod masked;
pub(crate) mod namespaces;
pub(crate) mod polling;
pub(crate) mod positioned;
pub(crate) mod processes;
pub(crate) mod receive;
pub(crate) mod rings;
pub(crate) mod rseq;
pub(crate) mod select;
pub(crate) mod shared_memory;
pub(crate) mod signals;
pub(crate) mod socket_timeouts;
pub(crate) mod task_folder;
pub(crate) mod threads;
pub(crate) mod transfer;
