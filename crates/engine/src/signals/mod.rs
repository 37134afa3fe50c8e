//! Signals: the kernel's handler is ours, and the engine delivers what the program sees.
//!
//! ```text
//!   handling ─▶ delivery          a signal's way to the program's handler
//!   masks: what threads want      flood: those that come too fast
//!   seccomp: calls that a filter traps
//! ```
//!
//! `handling` runs in the kernel's handler. So it takes no lock, and only notes the signal.

pub(crate) mod delivery;
pub(crate) mod flood;
pub(crate) mod handling;
pub(crate) mod masks;
pub(crate) mod seccomp;
