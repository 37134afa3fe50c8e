//! Unmodified programs and clients of tokio's ecosystem in a simulated world. Each seed has a
//! partition and a crash. Afterwards faults end, and each client must be served again.

use duality_outside as _;

mod chat;
mod counting;
mod guests;
mod redis;
mod trouble;
mod turmoil;
