//! The edges of the measured window: when it opens and closes, and what is called then.

use std::time::{Duration, Instant};

/// When the window opens and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edges {
    /// When the recorder is told to open and close it.
    ByTime,
    /// After so many of `total` requests have ended, with or without a correct reply.
    ByCount { open_after: u64, close_after: u64, total: u64 },
}

impl Edges {
    /// Leaves out the first and the last 1,000 of `total` requests when at least 10,000 are made.
    /// Kerneis and Chroboczek do so (*Are events fast?*, 2009).
    pub(crate) fn for_requests(total: u64) -> Self {
        let margin = if total >= 10_000 { 1_000 } else { 0 };
        Edges::ByCount { open_after: margin, close_after: total - margin, total }
    }
}

/// The functions that a load calls at the window's edges.
pub(crate) trait EdgeHook: Send {
    /// Called before the window opens. The window opens at the returned moment.
    fn opened(&mut self) -> Moment;
    /// The window closes. Its end is the moment that is returned.
    fn closed(&mut self) -> Moment;
}

/// A point in time, the CPU time that the load had used by then, and how long it had waited for its
/// CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    pub(crate) cpu: Duration,
    pub(crate) waited: Duration,
}
