//! The objects of the program, and how their system calls get their jumps into the engine.
//!
//! ```text
//!   patching ─▶ object_file      what an object's file tells: segments, sections
//!               site_cache       where the calls of libraries are, from the last run
//!               cache_bounds     how many of these files stay
//!               vectors          how much room the vector registers need
//! ```

pub(crate) mod cache_bounds;
pub(crate) mod object_file;
pub(crate) mod patching;
pub(crate) mod site_cache;
pub(crate) mod vectors;
