//! The sheets of each question, one file each.

pub mod graph;
pub mod traffic;
