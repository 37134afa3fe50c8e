//! Fibers: functions with their own stack, and the switch to that stack and back.
//!
//! A fiber is the *mechanism* under a user-level thread. A fiber knows nothing of descriptors,
//! timers or queues. The park world of `duality-runtime` resumes fibers from its loop. A fiber that
//! must wait switches to the next ready fiber. When no fiber is ready, the waiting fiber suspends
//! itself, which returns to the loop.
//!
//! ```text
//!   kernel thread's stack              a fiber's stack (Stack)           another's
//!   ─────────────────────              ───────────────────────           ─────────
//!   loop ── Fiber::resume ── switch ─▶ entry() … suspend_for() ─ switch ▶ … suspend()
//!     ▲                                                                      │
//!     └────────────────────────────────── switch ────────────────────────────┘
//! ```
//!
//! Stacks of one size come from a [`StackPool`]. The pool carves them from *slabs*, so that a
//! million stacks are a handful of mappings:
//!
//! ```text
//!   slab, one mapping: ├ guard │ ◀── stack ┼ guard │ ◀── stack ┼ guard │ ◀── stack ┼ …
//!                        │                    ▲ from the top: header, value, calls
//!                        └ touched: SIGSEGV, and the line of `overflow`, which names the fiber
//! ```
//!
//! A fiber stays on the kernel thread that made it ([`Fiber`] is not `Send`), so thread-locals keep
//! their meaning across a switch. The switch itself is a few lines of assembly, in `switch/`.
//!
//! ```
//! use duality_fiber::{Fiber, Stack, suspend};
//!
//! let fiber = Fiber::new(Stack::new(64 * 1024)?, || suspend());
//! assert!(!fiber.resume()); // it suspended itself,
//! assert!(fiber.resume()); //  and now it has run to its end
//! # Ok::<(), std::io::Error>(())
//! ```

#![warn(missing_debug_implementations)]

mod below;
mod fiber;
pub mod overflow;
mod pool;
mod prefetch;
mod sanitizer;
mod slab;
mod stack;
mod switch;

pub use self::below::below;
pub use self::fiber::Fiber;
pub use self::fiber::here::{suspend, suspend_for};
pub use self::pool::StackPool;
pub use self::prefetch::prefetch;
pub use self::stack::Stack;

/// Bytes of a cache line.
const LINE: usize = 64;
