//! The sheets of each question, one file each.

pub mod capacity;
pub mod graph;
pub mod model;
pub mod plan;
pub mod regimes;
pub mod runs;
pub mod traffic;
pub mod trial;
