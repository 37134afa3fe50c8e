//! Runs an application of axum, hyper or tower under tokio's layouts and under every architecture
//! of Duality, and measures which is best.
//!
//! A program needs [`App`] only. Its `main` has the commands `serve`, `compare`, `load` and the
//! other commands of `duality`. The page docs/axum.md explains them.
//!
//! ```text
//!   App ── Form ─ makes, for each runtime ─▶ Instance ─ serves ─▶ a connection
//!                                              ▲
//!                layouts: Acceptor ─ accepts ──┤   on a runtime of tokio's
//!                ours: Handler ────────────────┘   in a world of Duality's, tokio beside
//! ```

#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]

mod acceptor;
mod app;
mod arrived;
mod beside;
mod client;
mod drain;
mod failure;
mod form;
mod instance;
pub mod layouts;
mod ours;
#[expect(unsafe_code, reason = "tokio watches foreign descriptors only by an unsafe call")]
mod readable;
mod refusal;
mod requests;
mod runtimes;
mod socket;
mod streams;

pub use app::App;
