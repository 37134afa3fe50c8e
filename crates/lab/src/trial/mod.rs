//! A randomised experiment on live traffic: one address, one server for each candidate, and clients
//! that do not know of the trial.
//!
//! ```text
//!   clients ──▶ one address ── listeners: whose turn is it? ──▶ epoll     a process each, with its
//!                                                           ├──▶ threads   own listening socket
//!                                                           └──▶ uthreads
//!   run: turns, looks, limits ──▶ blocks ──▶ judge::sequential ──▶ events ──▶ text, page, records
//! ```
//!
//! Time is cut into turns in mirrored random order (`plan`). A connection stays with the server
//! that accepted it. So each server's processor time and requests count at all times. A block is
//! one mirrored pair of turns of each candidate. docs/trial.md explains the method.
//!
//! The trial itself listens, through the [`Listeners`] that the command provides. So a server can
//! die, or end in order, and no queued connection is lost.

mod bounds;
mod candidate;
mod ending;
pub mod event;
mod plan;
mod queue;
mod run;
pub mod shown;
mod silence;
#[cfg(test)]
mod simulated;
pub(crate) mod text;
mod totals;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use duality_load::Slo;
use schemars::JsonSchema;
use serde::Serialize;

use self::event::{Measured, Standing};
use crate::judge::sequential::Rule;

pub use run::run;
pub use text::line;

/// The candidates of a trial, and the procedure.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The path of `duality`, this program, which serves.
    pub program: PathBuf,
    /// The service.
    pub service: String,
    /// The candidates, at least two.
    pub candidates: Vec<Candidate>,
    /// Flags of `duality serve` for each candidate.
    pub server_arguments: Vec<String>,
    /// The length of a turn, for a candidate with an equal share.
    pub slot: Duration,
    /// How connections are assigned.
    pub by: By,
    /// The limits that take a candidate out.
    pub limits: Limits,
    /// The longest time that the trial may take.
    pub budget: Duration,
    /// The action at the end of the trial.
    pub then: Then,
    /// The demands on the verdict.
    pub rule: Rule,
    /// The seed of the order of turns.
    pub seed: u64,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Candidate {
    /// The candidate's name.
    pub name: String,
    /// The architecture, which carries the candidate's connections.
    pub architecture: String,
    /// The share of the new connections, from 0 to 1.
    pub share: f64,
}

/// How connections are assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// In turns: all connections of a turn go to one candidate.
    Slot,
    /// Each connection by lot.
    Connection,
}

/// The limits that take a candidate out of the trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The limit on service times: too large a share of longer times takes a candidate out.
    pub slo: Option<Slo>,
    /// The largest share of requests that may fail, from 0 to 1.
    pub max_errors: f64,
    /// The most memory in bytes.
    pub max_memory: Option<u64>,
}

/// The action at the end of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The best candidate goes on serving.
    Serve,
    /// All candidates drain, and the trial ends.
    Exit,
}

/// The listening sockets of a trial, one for each candidate at one address, and the choice of the
/// one that gets new connections.
pub trait Listeners {
    /// The address.
    fn address(&self) -> SocketAddr;

    /// The socket of a candidate.
    fn listener(&self, candidate: usize) -> BorrowedFd<'_>;

    /// Whether connections wait to be accepted from a candidate's socket.
    fn has_connections(&self, candidate: usize) -> bool;

    /// Gives a candidate all new connections.
    ///
    /// # Errors
    ///
    /// The kernel's errors.
    fn choose(&self, candidate: usize) -> io::Result<()>;

    /// Draws a candidate for each new connection by these weights.
    ///
    /// # Errors
    ///
    /// The kernel's errors.
    fn draw(&self, weights: &[u32]) -> io::Result<()>;

    /// Completes connections that have begun, and refuses new ones.
    ///
    /// # Errors
    ///
    /// The kernel's errors.
    fn close_to_newcomers(&self) -> io::Result<()>;
}

/// Receives the events of a trial.
pub trait Audience {
    /// Receives an event. A failure to show or keep the event does not end the trial, because
    /// clients depend on the trial.
    fn hear(&mut self, told: &event::Told);

    /// Receives a look at the candidates, a few times a second. Used by a display.
    fn glance(&mut self, glance: &Glance);
}

/// A look at the candidates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glance {
    /// The standings of the candidates in the trial, the best first.
    pub standings: Vec<Standing>,
    /// The measurements of each candidate in the whole trial.
    pub measured: BTreeMap<String, Measured>,
    /// The candidate that gets all new connections. `None` if each connection is drawn.
    pub selected: Option<String>,
}

impl Glance {
    /// The standing in a line.
    pub fn line(&self) -> String {
        text::glance(&self.standings, &self.measured, self.selected.as_deref())
    }
}
