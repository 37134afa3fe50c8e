//! Tests the stores as services use them, in each of the three worlds.
//!
//! The tests with Redis need `redis-server`, which `cargo xtask test` checks.

mod contract;
mod hostile;
mod leaving;
mod phone;
mod redis;
mod sqlite;
mod worlds;
