//! Compiles with a `Cargo.lock` of old versions.

pub use tokio::net::TcpStream;
