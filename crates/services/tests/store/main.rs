//! The stores as services use them, in each of the three worlds.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "what stands around the store, a server that lies among it, is plain blocking code"
)]

mod sqlite;
mod worlds;
