//! From the program into the engine: patched system calls, and how the program is patched at the
//! start.
//!
//! ```text
//!   start ─▶ settings, patching             once: the objects of the process get their jumps
//!                      object_file          what an object's file tells: segments, sections
//!                      site_cache           where the calls of libraries are, from the last run
//!                      cache_bounds         how many of these files stay
//!   a patched `syscall` ─▶ assembly ─▶ dispatch ─▶ table ─▶ a function of `calls`
//!                          frame, vectors   the registers; seccomp: calls that a filter traps
//! ```
//!
//! This module may use every module below it. Only `assembly` is written in assembly.

pub(crate) mod assembly;
pub(crate) mod cache_bounds;
pub(crate) mod dispatch;
pub(crate) mod frame;
pub(crate) mod object_file;
pub(crate) mod patching;
pub(crate) mod seccomp;
pub(crate) mod settings;
pub(crate) mod site_cache;
pub(crate) mod start;
pub(crate) mod table;
pub(crate) mod vectors;
