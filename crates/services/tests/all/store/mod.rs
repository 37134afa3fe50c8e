//! Tests the stores as services use them, in each of the three worlds.
//!
//! The tests with Redis need `redis-server`, which `cargo xtask test` checks.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "what stands around the store, a server that lies among it, is plain blocking code"
)]

mod contract;
mod hostile;
mod leaving;
mod phone;
mod redis;
mod sqlite;
mod worlds;
