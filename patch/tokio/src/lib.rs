//! Duality's worlds under tokio's name. A program's `[patch.crates-io]` puts this crate in the
//! place of tokio, and the program runs unmodified on the world that `DUALITY_WORLD` names.
//!
//! ```text
//!   program, axum, hyper, reqwest …                    all of them name the crate tokio
//!        │
//!        ▼
//!   net  time  task  runtime  signal  process  fs     this crate: Duality's worlds beneath
//!        │             io traits  sync  select! …      the genuine tokio: no reactor needed
//!        ▼
//!   duality-runtime ─▶ threads | uthreads | epoll | uring | poll | select
//! ```
//!
//! An item of tokio's that is missing here does not compile. The page docs/tokio-patch.md lists the
//! missing items.

#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]

mod budget;
#[expect(unsafe_code, reason = "ReadBuf and BufMut lend uninitialised memory by unsafe calls")]
mod buffer;
mod elsewhere;
pub mod fs;
pub mod io;
mod join;
pub mod net;
pub mod process;
pub mod runtime;
mod scheduler;
pub mod signal;
pub mod task;
pub mod time;
#[expect(unsafe_code, reason = "an address of a place in the program goes to another thread")]
mod watchdog;
mod watched;
mod world;

pub use real::{join, main, pin, select, sync, task_local, test, try_join};
pub use task::spawn;
