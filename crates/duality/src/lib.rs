//! Duality: write a network service once, as straight-line code. Run it under every server
//! architecture, and measure which one is best.
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
//! # #[cfg(feature = "tool")]
//! fn main() -> std::process::ExitCode {
//!     duality::Service::new("echo", echo)
//!         .independent_connections()
//!         .exchange("hello", "hello")
//!         .main()
//! }
//! # #[cfg(not(feature = "tool"))]
//! # fn main() {}
//! ```
//!
//! This program has the commands `serve` and `compare`, like `duality` itself for its own services.
//! [`Service::serve`] runs a service inside a larger program, or in a test.
//!
//! The command line and the measuring tools are the feature `tool`, which is on by default. For the
//! library alone (some 20 crates instead of some 100), depend on it without that feature:
//!
//! ```toml
//! [dependencies]
//! duality = { version = "0.1", default-features = false }
//! ```
//!
//! # Worlds
//!
//! A service is an `async fn` over [`net`], [`time`], [`sync`], [`fs`] and [`task`]. The function
//! is compiled once. The *world* of the kernel thread decides, at run time, how the thread waits:
//!
//! | world | a wait … | architectures |
//! | --- | --- | --- |
//! | block | blocks the kernel thread in a system call | iterative, fork, prefork, threads, pool |
//! | park | switches to the stack of another task | uthreads |
//! | suspend | returns `Pending` to the event loop | select, poll, epoll, uring |
//! | reactor | returns `Pending`; one thread watches and queues the task again | staged |
//!
//! Three rules make a service work the same in all worlds:
//!
//! - A straight-line task waits for one thing at a time. [`select!`] and [`join!`] wait for
//!   several. For work in parallel, use [`task::spawn`].
//! - Set time limits with [`time::timeout`], or on the stream
//!   ([`set_read_timeout`](net::TcpStream::set_read_timeout)).
//! - Run blocking or long computations with [`task::offload`].
//!
//! # Traps
//!
//! **Combinators of other crates.** Put `FuturesUnordered`, `join_all`, `tokio::join!` and all
//! others that poll several futures in one task into [`task::gather`]. Outside it, a wait happens
//! inside `poll` in the block and park worlds. So the futures run one after the other, and deadlock
//! if two need each other. [`select!`] and [`join!`] of this crate gather their waits:
//!
//! ```
//! use duality::block_on;
//! use duality::time::{Duration, sleep};
//!
//! # fn main() {
//! block_on(async {
//!     let first = duality::select! {
//!         () = sleep(Duration::from_millis(1)) => "short",
//!         () = sleep(Duration::from_secs(3600)) => "long",
//!     };
//!     assert_eq!(first, "short");
//!     let (one, two) = duality::join!(async { 1 }, async { 2 });
//!     assert_eq!(one + two, 3);
//! });
//! # }
//! ```
//!
//! A combinator that polls with its own waker outside `gather` is detected at a wait and logged
//! once. Combinators that pass the task's waker on are not detected, and neither are waits for a
//! socket in the block world.
//!
//! **Futures that need another runtime.** `tokio::net`, `tokio::time`, `async-std` and clients
//! built on them wait for their own reactor. Here that reactor does not run. The crate
//! `duality-tokio` runs tokio's reactor beside the architecture. Alternatively, call a blocking
//! client through [`task::offload`].
//!
//! **Blocking calls on a loop.** Under uthreads and the event loops, a task that blocks holds up
//! all connections of its loop. Examples are `std::fs`, `std::thread::sleep`, a lock that another
//! task holds, and a long computation.
//!
//! **A `std` lock held across `.await`.** The next task of the same loop that takes the lock blocks
//! the kernel thread. The holder never runs again. Use [`sync::Mutex`], or release the lock before
//! the wait.
//!
//! **Deep stacks.** Under uthreads, threads and pool a connection has 128 KiB of stack
//! ([`Options::stack_size`]). An overflow ends the process with a line that names the task. Run
//! deep code that does not wait with [`task::leaf`].
//!
//! **Memory under fork and prefork.** Each connection has its own process, or shares one with few
//! others. Both architectures refuse a service unless it declares
//! [`independent_connections`](Service::independent_connections).
//!
//! # Draining
//!
//! A service drains on SIGTERM or SIGINT under `Service::main`, and on [`Handle::shutdown`]:
//!
//! - Listeners accept no more connections.
//!
//! - An *accepted* connection that waits for input sees the end of input: `read` returns 0. The
//!   service finishes its current request, writes the reply and returns. No code is needed for
//!   this.
//!
//! - Other waits go on: sleeps, locks, connections that the service has opened itself. Add
//!   [`drained`] to a [`select!`] if such a wait should end.
//!
//! - When all connections have ended, the server ends. On a loop, remaining spawned tasks are
//!   dropped. In the block world, they are kernel threads and run on.
//!
//! The command line cuts a drain off after 30 seconds (`--drain-limit`), or at a second signal. A
//! [`Handle`] waits without a limit.
//!
//! # Panics
//!
//! A panic in a service closes its connection. All other connections and the server go on. The
//! panic hook reports the panic first, as usual. A panic in a spawned task becomes a
//! [`task::JoinError`] for the task that awaits the handle, with what the task panicked with. The
//! panic releases a [`sync::Mutex`] and does not poison it. Under fork and prefork, a panic stays
//! in its process. With `panic = "abort"` a panic ends the process.
//!
//! # Errors
//!
//! A service returns `io::Result<()>`, and `Err` closes the connection. The first five errors are
//! logged with the client's address and the last [`stage`](task::stage) of the task. Errors of
//! clients that break off (`ConnectionReset`, `BrokenPipe`, `ConnectionAborted`) are not logged.
//! [`Service::on_error`] replaces the log by a function that sees every error.
//!
//! # Testing
//!
//! Serve the service on a port that the kernel chooses, and talk to it with `std::net`. This test
//! runs under every architecture that the machine and the service allow:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::{Shutdown, TcpStream};
//!
//! # async fn echo(mut stream: duality::net::TcpStream) -> std::io::Result<()> {
//! #     let mut buffer = [0; 4096];
//! #     loop {
//! #         match stream.read(&mut buffer).await? {
//! #             0 => return Ok(()),
//! #             count => stream.write_all(&buffer[..count]).await?,
//! #         }
//! #     }
//! # }
//! #
//! # fn main() -> std::io::Result<()> {
//! let service = duality::Service::new("echo", echo);
//! for architecture in service.architectures() {
//!     let served = service.serve(architecture, "127.0.0.1:0")?;
//!     let mut client = TcpStream::connect(served.local_address())?;
//!     client.write_all(b"hello")?;
//!     client.shutdown(Shutdown::Write)?;
//!     let mut reply = String::new();
//!     client.read_to_string(&mut reply)?;
//!     assert_eq!(reply, "hello", "{architecture}");
//!     served.shutdown();
//!     served.join()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`block_on`] runs a future without any server, in the block world, and [`run_in`] in any world.
//! `#[duality::test]` makes an `async fn` a test in every world, in virtual time, or under the
//! seeds of a simulation: see [`test`](macro@test).

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

#[cfg(feature = "tool")]
mod cache;
#[cfg(feature = "tool")]
mod catalogue;
#[cfg(feature = "tool")]
mod cc;
#[cfg(feature = "tool")]
pub mod cli;
#[cfg(feature = "tool")]
mod control;
#[cfg(feature = "tool")]
mod failure;
mod handle;
#[cfg(feature = "tool")]
mod metrics;
#[cfg(feature = "tool")]
mod run;
mod service;
#[cfg(feature = "tool")]
mod setup;
#[cfg(feature = "tool")]
mod watch;

pub use duality_architectures::{Needs, Options};
pub use duality_macros::{main, test};
#[cfg(feature = "hyper")]
pub use duality_runtime::hyper;
pub use duality_runtime::world::World;
pub use duality_runtime::{block_on, drained, fs, join, net, select, sync, task, time};
pub use duality_runtime::{run_in, run_paused_in};
pub use handle::Handle;
pub use service::Service;

/// The examples of the page docs/from-tokio.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-tokio.md")]
pub struct FromTokio;

#[cfg(feature = "simulate")]
#[doc(inline)]
pub use duality_simulate as simulate;
