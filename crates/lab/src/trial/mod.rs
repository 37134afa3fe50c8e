//! A randomised experiment on live traffic: one address, one server for each candidate, and clients
//! that know nothing of it.
//!
//! ```text
//!   clients ──▶ one address ── the door: whose turn is it? ──▶ epoll     a process each, with its
//!                                                         ├──▶ threads   own listening socket
//!                                                         └──▶ uthreads
//!   run: turns, looks, limits ──▶ blocks ──▶ judge::sequential ──▶ events ──▶ text, page, records
//! ```
//!
//! Time is cut into turns in mirrored random order (`plan`). A connection stays with the server
//! that accepted it, so each server's processor time and requests count at all times. A block is
//! one mirrored pair of turns of each candidate. docs/trial.md explains the method.
//!
//! The trial itself listens, by the [`Door`] that the command gives it. So a server can die, or end
//! in order, and no queued connection is lost.

mod candidate;
mod ending;
pub mod event;
mod page;
mod plan;
pub mod record;
mod run;
mod text;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use duality_load::Slo;
use serde::Serialize;

use crate::judge::sequential::Rule;

pub use run::run;
pub use text::{line, summary};

/// What is tried, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The `duality` that serves: this program.
    pub program: PathBuf,
    /// The service.
    pub service: String,
    /// The candidates, at least two.
    pub candidates: Vec<Candidate>,
    /// Flags of `duality serve` for each of them.
    pub server_arguments: Vec<String>,
    /// How long a turn is, of a candidate with an equal share.
    pub slot: Duration,
    /// How connections are handed out.
    pub by: By,
    /// What takes a candidate out.
    pub limits: Limits,
    /// How long the trial may take.
    pub budget: Duration,
    /// What happens at its end.
    pub then: Then,
    /// What is asked of the verdict.
    pub rule: Rule,
    /// The seed of the order of turns.
    pub seed: u64,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// What it is called.
    pub name: String,
    /// How it carries connections.
    pub architecture: String,
    /// The share of the new connections, from 0 to 1.
    pub share: f64,
}

/// How connections are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// In turns: all connections of a time go to one candidate.
    Slot,
    /// Each by lot.
    Connection,
}

/// What takes a candidate out of the trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Service times of which too large a share is longer.
    pub slo: Option<Slo>,
    /// The largest share of requests that may fail, from 0 to 1.
    pub max_errors: f64,
    /// The most memory in bytes.
    pub max_memory: Option<u64>,
}

/// What happens at the end of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The best candidate goes on serving.
    Serve,
    /// All drain, and the trial ends.
    Exit,
}

/// The address of a trial: a listening socket for each candidate, and the choice of the one that
/// gets new connections.
pub trait Door {
    /// Where it is.
    fn address(&self) -> SocketAddr;

    /// The socket of a candidate.
    fn listener(&self, candidate: usize) -> BorrowedFd<'_>;

    /// Whether connections wait to be accepted from a candidate's socket.
    fn has_connections(&self, candidate: usize) -> bool;

    /// Gives a candidate all new connections.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    fn choose(&self, candidate: usize) -> io::Result<()>;

    /// Draws a candidate for each new connection by these weights.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    fn draw(&self, weights: &[u32]) -> io::Result<()>;

    /// Completes connections that have begun, and lets none begin.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    fn close_to_newcomers(&self) -> io::Result<()>;
}

/// Hears what happens in a trial.
pub trait Audience {
    /// Something has happened. The trial goes on where this cannot be told or kept, for clients
    /// depend on it.
    fn hear(&mut self, told: &event::Told);

    /// A look at the candidates, some times a second. For a display.
    fn glance(&mut self, standing: &str);
}
