//! The engine's output: stacks, reports and lists of threads.
//!
//! ```text
//!   dump, stall ─▶ report                  lines on standard error
//!   unwind ─▶ loaded_objects, symbols      walks through stacks
//! ```
//!
//! This module only reads the engine's state.

pub(crate) mod dump;
pub(crate) mod loaded_objects;
pub(crate) mod report;
pub(crate) mod stall;
pub(crate) mod symbols;
pub(crate) mod unwind;
