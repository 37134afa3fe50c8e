//! A service's view of the machine, and the four worlds beneath it.
//!
//! A service is straight-line `async` code over [`net`], [`time`], [`sync`], [`fs`] and [`task`].
//! The *world* of the kernel thread decides at run time what a blocking operation does. So one
//! compiled service runs under every architecture:
//!
//! | world | a blocking operation … | driven by |
//! | --- | --- | --- |
//! | block | is the plain blocking system call | [`block_on`] |
//! | park | tries, and on "would block" switches stacks | [`event_loop`], `LoopWorld::Park` |
//! | suspend | tries, and on "would block" is `Pending` | [`event_loop`], `LoopWorld::Suspend` |
//! | reactor | tries, and on "would block" leaves its kernel thread | [`blocks`], the reactor |
//!
//! The worlds are equivalent under these rules. A straight-line task waits for one thing at a time,
//! as a thread does. [`select!`], [`join!`] and [`task::gather`] wait for several. Parallel work is
//! [`task::spawn`]. Work that would hold up a loop goes through [`task::offload`].
//!
//! Start reading at [`world`], where an operation meets its world. `event_loop` is the machine that
//! the park and suspend worlds share.

#![warn(missing_debug_implementations)]

pub mod blocks;
pub mod drain;
pub mod event_loop;
pub mod fs;
mod gather;
#[doc(hidden)]
pub mod handler;
#[cfg(feature = "hyper")]
pub mod hyper;
mod join_cell;
pub mod log;
// What simulations stand on. These modules may change without notice.
#[doc(hidden)]
pub mod apart;
#[doc(hidden)]
pub mod locks;
#[doc(hidden)]
pub mod machine;
pub mod memory;
pub mod net;
mod pages;
pub mod places;
// Support for `duality simulate`. This module may change without notice.
#[doc(hidden)]
pub mod preloaded;
// Support for the load generator. This module may change without notice.
#[doc(hidden)]
pub mod priority;
pub mod processor;
pub mod reload;
mod remote;
mod run;
pub mod shared;
pub mod sync;
pub mod task;
mod tcp_info;
mod thread_waker;
#[doc(hidden)]
pub mod threads;
pub mod time;
pub mod visibility;
mod wait;
pub mod world;

pub use remote::wakeup;
pub use run::{run_in, run_paused_in};
pub use world::block::block_on;
pub use world::drained::drained;

/// Marks a cold path, so that the compiler moves it out of line.
#[cold]
#[inline(never)]
fn cold_path() {}
