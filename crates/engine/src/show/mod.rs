//! The engine's output: counters, stacks, reports, and data for a debugger.
//!
//! ```text
//!   stats, dump, stall ─▶ report          lines on standard error
//!   unwind ─▶ loaded_objects, symbols      walks through stacks
//!   inspection                             for debuggers
//! ```
//!
//! This module only reads the engine's state.

pub(crate) mod dump;
pub(crate) mod inspection;
pub(crate) mod loaded_objects;
pub(crate) mod report;
pub(crate) mod stall;
pub(crate) mod stats;
pub(crate) mod symbols;
pub(crate) mod unwind;
