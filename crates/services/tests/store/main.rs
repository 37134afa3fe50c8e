//! The stores as services use them, in each of the three worlds.
//!
//! Those in Redis need `redis-server`, which `cargo xtask test` sees to.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "what stands around the store, a server that lies among it, is plain blocking code"
)]

mod contract;
mod hostile;
mod phone;
mod redis;
mod sqlite;
mod worlds;
