//! Judges records, as data: rows of medians, differences within rounds and blocks, and the verdict.
//!
//! ```text
//!   records ─▶ rows      one subject at one number of connections: medians, intervals, faults
//!             ├▶ faults    what excludes a subject, whatever its figures are
//!             └▶ conduct   what a reader must know of it: growth, stops, long tails
//!           ─▶ rounds    windows of one repeat: the pairs that a verdict without blocks has
//!           ─▶ blocks    slices of one block: the pairs that it has with them
//!                 └────▶ verdict   the best set, and what is out for sure
//! ```
//!
//! Builds of one program have a verdict of their own ([`builds`]): what changed from the first one.
//!
//! A trial on live traffic has a verdict at any time ([`sequential`]). A trial also has limits that
//! each server must keep ([`guard`]).
//!
//! This module has no sentences: `tell` has the words.

pub mod alternatives;
pub mod blocks;
pub mod builds;
pub mod conduct;
pub mod constraints;
mod fates;
pub mod faults;
pub mod guard;
pub mod network;
pub(crate) mod pairs;
pub mod question;
pub mod race;
pub(crate) mod rounds;
pub mod rows;
pub mod sequential;
pub mod soundness;
pub mod summary;
pub mod verdict;
