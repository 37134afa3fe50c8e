//! From the program into the engine, and how the engine starts.
//!
//! ```text
//!   start                        once: the engine's state, and the jumps in the program's objects
//!   a patched `syscall` ─▶ assembly ─▶ dispatch ─▶ table ─▶ a function of `calls`
//!                                       tasks: calls of a converted program's runtime
//! ```
//!
//! What depends on the processor is in a folder of its own. Only `assembly` there is written in
//! assembly.

pub(crate) mod dispatch;
pub(crate) mod row;
pub(crate) mod start;
pub(crate) mod table;
pub(crate) mod tasks;
pub(crate) mod x86_64;
