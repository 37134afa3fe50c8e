//! The edges of the measured window: their times, and the functions that are called there.

use std::time::{Duration, Instant};

/// The rule for the opening and closing of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edges {
    /// At the recorder's calls of open and close.
    ByTime,
    /// After this many of `total` requests have ended, with or without a correct reply.
    ByCount { open_after: u64, close_after: u64, total: u64 },
}

impl Edges {
    /// Leaves out the first and the last 1,000 of `total` requests if there are at least 10,000.
    /// Kerneis and Chroboczek do the same (*Are events fast?*, 2009).
    pub(crate) fn for_requests(total: u64) -> Self {
        let margin = if total >= 10_000 { 1_000 } else { 0 };
        Edges::ByCount { open_after: margin, close_after: total - margin, total }
    }
}

/// The functions that a load calls at the window's edges.
pub(crate) trait EdgeHook: Send {
    /// Called before the window opens. The window opens at the returned moment.
    fn opened(&mut self) -> Moment;
    /// Called as the window closes. The returned moment is the window's end.
    fn closed(&mut self) -> Moment;
}

/// A point in time, with the CPU time that the load had used and the time that it had waited for
/// its CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    pub(crate) cpu: Duration,
    pub(crate) waited: Duration,
}
