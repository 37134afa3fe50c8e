//! The simulated world: hosts, a network in memory and a clock that one seed decides.
//!
//! A host runs a program as it ships, on an event loop of its own. The seed decides which task has
//! the next turn, how many bytes a read moves, when a packet arrives, and what fails. Virtual time
//! passes only where nothing else can happen. So an hour takes a moment. Each failure comes back by
//! its seed.
//!
//! ```
//! use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
//! use duality_runtime::time::Duration;
//! use duality_simulate::{Faults, seeds};
//!
//! async fn echo() -> std::io::Result<()> {
//!     let any = ([0, 0, 0, 0], 7).into();
//!     let mut listener = TcpListener::bind(any, &ListenOptions::default())?;
//!     loop {
//!         let (mut stream, _) = listener.accept().await?;
//!         let mut buffer = [0; 64];
//!         loop {
//!             match stream.read(&mut buffer).await? {
//!                 0 => break,
//!                 count => stream.write_all(&buffer[..count]).await?,
//!             }
//!         }
//!     }
//! }
//!
//! let tally = seeds(0..20).faults(Faults::LEGAL).run(|net| async move {
//!     net.host("server", echo);
//!     let client = net.host("client", || async {
//!         let mut stream = TcpStream::connect_host("server:7").await?;
//!         stream.write_all(b"hello").await?;
//!         let mut reply = [0; 5];
//!         stream.read_exact(&mut reply).await?;
//!         assert_eq!(&reply, b"hello");
//!         std::io::Result::Ok(())
//!     });
//!     net.partition("client", "server").for_(Duration::from_secs(5));
//!     client.ended().await
//! });
//! assert_eq!(tally.seeds, 20);
//! ```
//!
//! A seed is run twice, and both runs must take the same decisions.
//!
//! docs/simulate.md says what a simulation sees, and what it cannot see.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod apart;
#[cfg(feature = "services")]
pub mod costs;
mod decisions;
mod driver;
mod faults;
mod machine;
mod net;
mod network;
mod order;
pub mod outside;
mod process;
mod seeds;
#[cfg(feature = "services")]
pub mod services;
mod shared;
mod shrink;
mod threads;
mod violation;

pub use faults::{Counts, Faults};
pub use net::{Crash, Ending, Host, Net, Partition};
pub use seeds::{Failure, Seeds, Tally, seeds};
pub use shared::Waits;
pub use shrink::Shrunk;
pub use violation::Violation;
