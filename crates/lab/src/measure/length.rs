//! Estimates how long an experiment and its parts take, for a budget and for the progress bar.

use std::time::Duration;

use super::experiment::Experiment;
use super::load_command::USUAL_RUN;
use crate::record::{CellKey, Design, cells};

/// The time of a cell besides warm-up and window: starting a server, draining it.
pub(crate) const OVERHEAD: Duration = Duration::from_millis(120);
/// The time that each connection adds to a cell, roughly: opening and closing it.
const OF_A_CONNECTION: Duration = Duration::from_micros(100);
/// How many pieces of a recording a block has.
pub(crate) const PIECES: usize = 2;
/// The time that a piece takes besides warm-up and window, until its connections have ended.
const OVERHEAD_OF_A_PIECE: Duration = Duration::from_millis(50);
/// The time of a slice besides its length: the lab checks twice whether the server rests.
const OVERHEAD_OF_A_SLICE: Duration = Duration::from_micros(800);
/// The time that each connection adds to a slice, which waits for the last reply.
const OF_A_LAST_REPLY: Duration = Duration::from_micros(25);

impl Experiment {
    /// The approximate length of the experiment. Unavailable cells take no time.
    pub fn length(&self) -> Duration {
        let Design { repeats, blocks, .. } = self.design;
        let windows: f64 = self.tried_cells().map(|cell| self.seconds_of_a_cell(&cell)).sum();
        let blocks = repeats.saturating_mul(blocks) as f64 * self.seconds_of_a_block();
        Duration::try_from_secs_f64(windows + blocks).unwrap_or(Duration::MAX)
    }

    /// The approximate length of a cell.
    pub(crate) fn seconds_of_a_cell(&self, cell: &CellKey) -> f64 {
        let Design { warm_up_seconds, window_seconds, .. } = self.design;
        warm_up_seconds + window_seconds + self.overhead(cell).as_secs_f64()
    }

    /// The approximate time of a cell besides warm-up and window.
    pub(crate) fn overhead(&self, cell: &CellKey) -> Duration {
        let connections = u32::try_from(cell.concurrency).unwrap_or(u32::MAX);
        match self.design.load_command {
            // One run warms the server up, and the next run is measured.
            Some(_) => OVERHEAD + 2 * USUAL_RUN,
            None => OVERHEAD + OF_A_CONNECTION.saturating_mul(connections),
        }
    }

    /// The cells that are available at the start.
    pub(crate) fn tried_cells(&self) -> impl Iterator<Item = CellKey> {
        cells(&self.design).into_iter().filter(|cell| self.why_unavailable(cell).is_none())
    }

    /// The time of one block at each number of connections, in seconds. The time is 0 if servers
    /// are not driven side by side.
    pub(crate) fn seconds_of_a_block(&self) -> f64 {
        self.design.concurrency.iter().map(|count| self.seconds_of_blocks(*count)).sum()
    }

    /// The time of one block at this many connections, in seconds. The time is 0 if servers are not
    /// driven side by side.
    pub(crate) fn seconds_of_blocks(&self, concurrency: usize) -> f64 {
        if self.replay.is_some() {
            let Design { warm_up_seconds, window_seconds, .. } = self.design;
            let piece = warm_up_seconds + window_seconds + OVERHEAD_OF_A_PIECE.as_secs_f64();
            return PIECES as f64 * piece;
        }
        let names = self.design.measured();
        let alive =
            names.filter(|name| !self.unavailable.contains_key(&((*name).to_owned(), concurrency)));
        let (alive, room) = (alive.count(), self.side_by_side(concurrency));
        if room < 2 || alive < 2 {
            return 0.0;
        }
        let groups = if alive <= room { 1 } else { (alive - 1).div_ceil(room - 1) };
        // The subject that links groups is in each group.
        let slices = 2 * (alive + groups - 1);
        slices as f64 * self.seconds_of_a_slice(concurrency)
    }

    /// The time of a slice at this many connections, in seconds.
    pub(crate) fn seconds_of_a_slice(&self, concurrency: usize) -> f64 {
        if self.replay.is_some() {
            // A slice is a part of the pieces that all servers get at once.
            let slices = PIECES * self.design.measured().count().max(1);
            return self.seconds_of_blocks(concurrency) / slices as f64;
        }
        match self.design.load_command {
            Some(_) => USUAL_RUN.as_secs_f64(),
            None => slice_seconds(concurrency),
        }
    }
}

/// The length of a slice at this many connections, with the given round trip. In this time, each
/// connection gets several replies.
pub(crate) fn slice_length(concurrency: usize, round_trip: Option<Duration>) -> Duration {
    /// From this number of connections on, slices are longer.
    const MANY: usize = 500;
    /// The least number of replies that each connection should get.
    const REPLIES: u32 = 10;
    let near = Duration::from_millis(if concurrency < MANY { 35 } else { 55 });
    round_trip.map_or(near, |time| near.max(REPLIES * time))
}

fn slice_seconds(concurrency: usize) -> f64 {
    let connections = u32::try_from(concurrency).unwrap_or(u32::MAX);
    let rest = OVERHEAD_OF_A_SLICE + OF_A_LAST_REPLY.saturating_mul(connections);
    (slice_length(concurrency, None) + rest).as_secs_f64()
}
