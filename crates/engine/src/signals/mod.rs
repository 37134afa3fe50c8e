//! Signals: the kernel's handler is ours, and the engine delivers what the program sees.
//!
//! ```text
//!   handling ─▶ undelivered ─▶ delivery ─▶ context   a signal's way to the program's handler
//!   disposition, masks: what threads want of them     flood: those that come too fast
//!   info: the fields of a signal
//! ```
//!
//! `handling` runs in the kernel's handler. So it takes no lock, and only notes the signal.

pub(crate) mod context;
pub(crate) mod delivery;
pub(crate) mod disposition;
pub(crate) mod flood;
pub(crate) mod handling;
pub(crate) mod info;
pub(crate) mod masks;
pub(crate) mod undelivered;
