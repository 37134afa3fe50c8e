//! Tests of the simulated world: the services that ship with Duality, services with planted faults,
//! and the world itself.

use duality_outside as _;

mod architectures;
mod disks;
mod leaks;
mod links;
mod planted;
mod primitives;
mod services;
mod sockets;
#[cfg(feature = "rustls")]
mod tls;
mod world;
