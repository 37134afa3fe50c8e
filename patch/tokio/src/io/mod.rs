//! tokio's traits and utilities for bytes, and standard streams.

mod interest;
mod ready;
mod stdio;
pub mod unix;

// The glob is the genuine module without standard streams and `AsyncFd`: these need a runtime.
pub use real::io::*;

pub use self::interest::Interest;
pub use self::ready::Ready;
pub use self::stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};
