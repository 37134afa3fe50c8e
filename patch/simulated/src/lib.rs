//! Programs of tokio's ecosystem, as their authors write them. Nothing here knows of a simulation.

pub mod chat;
pub mod counting;
pub mod guests;
pub mod redis;
