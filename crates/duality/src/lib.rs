//! Duality: write a network service once, as straight-line code; run it under every server
//! architecture; measure which one is best.
//!
//! ```no_run
//! use duality::net::TcpStream;
//!
//! /// Echoes whatever arrives until the client closes (RFC 862).
//! async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
//!     let mut buffer = [0; 4096];
//!     loop {
//!         match stream.read(&mut buffer).await? {
//!             0 => return Ok(()),
//!             count => stream.write_all(&buffer[..count]).await?,
//!         }
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     duality::Service::new("echo", echo)
//!         .independent_connections()
//!         .exchange("hello", "hello")
//!         .main()
//! }
//! ```
//!
//! The program that this makes has the commands `serve` and `compare`, as `duality` itself has for the
//! services that come with it.

#![forbid(unsafe_code)]

mod catalogue;
pub mod cli;
mod control;
mod service;
mod watch;

pub use duality_architectures::Needs;
pub use duality_runtime::{block_on, fs, net, sync, task, time};
pub use service::Service;
