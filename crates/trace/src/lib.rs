//! How the clients of a server behaved: when connections came, what they asked for, how long they
//! paused. A [`Trace`] is made from a log, a capture or a recording, and a load is made from it.
//!
//! ```text
//!   access.log, .jsonl, .har, .pcap        duality record
//!            │ readers: one record a request     │
//!            ▼                                   │
//!        sessions: requests to connections       │
//!            └──────────────► trace ◄────────────┘
//!                               │
//!                       file: my.trace ──► summary, replay
//! ```
//!
//! A trace has neither addresses nor bodies nor headers. It has paths only on request.
//!
//! ```no_run
//! let trace = duality_trace::file::read("my.trace".as_ref())?;
//! println!("{} requests in {} s", trace.requests(), trace.seconds());
//! for connection in &trace {
//!     println!("{:?}: {} requests", connection.start, connection.steps.len());
//! }
//! # Ok::<(), duality_trace::file::Error>(())
//! ```

#![forbid(unsafe_code)]

mod classes;
mod clock;
pub mod file;
pub mod filter;
mod flows;
mod gather;
mod mask;
mod mistake;
mod order;
mod outliers;
pub mod packets;
pub mod readers;
pub mod recorder;
mod sessions;
pub mod size;
mod trace;
mod traps;
mod turns;

pub use mistake::Mistake;
pub use trace::{Class, Connection, Head, Inferred, Method, Sizes, Step, Trace, VERSION};
