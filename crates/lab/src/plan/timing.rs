//! How long experiments take, and how long their parts are when nobody says.

use std::time::Duration;

use super::{CellKey, Plan, cells};
use crate::load_command::USUAL_RUN;
use crate::record::Design;
use crate::verdict::{FEWEST_BLOCKS, FEWEST_SESSIONS};

/// What a cell costs beside warm-up and window: starting a server, draining it.
const OVERHEAD: Duration = Duration::from_millis(120);
/// What each connection adds to it, roughly: it is made, and ended.
const OF_A_CONNECTION: Duration = Duration::from_micros(100);
/// What a slice takes beside its length: it is seen that the server is at rest, twice.
const OVERHEAD_OF_A_SLICE: Duration = Duration::from_micros(800);
/// What each connection adds to it: its last reply is awaited.
const OF_A_LAST_REPLY: Duration = Duration::from_micros(25);

/// How long an experiment takes when its user does not say.
const WHOLE: Duration = Duration::from_secs(130);
/// Warm-up and window of a cell that blocks follow.
const BEFORE_BLOCKS: (Duration, Duration) = (Duration::from_millis(80), Duration::from_millis(120));
/// More blocks of a session are not chosen by default.
const MOST_BLOCKS: usize = 200;

/// What the user says of the parts of an experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// How long a cell is warmed up.
    pub warm_up: Option<Duration>,
    /// How long its window is.
    pub window: Option<Duration>,
    /// How many blocks a session has.
    pub blocks: Option<usize>,
    /// How long the whole takes.
    pub whole: Option<Duration>,
}

impl Plan {
    /// How long it takes, about: what is unavailable takes no time.
    pub fn length(&self) -> Duration {
        let Design { repeats, blocks, .. } = self.design;
        let windows: f64 = self.tried_cells().map(|cell| self.seconds_of_a_cell(&cell)).sum();
        let blocks = repeats.saturating_mul(blocks) as f64 * self.seconds_of_a_block();
        Duration::try_from_secs_f64(windows + blocks).unwrap_or(Duration::MAX)
    }

    /// How long a cell takes, about.
    pub(crate) fn seconds_of_a_cell(&self, cell: &CellKey) -> f64 {
        let Design { warm_up_seconds, window_seconds, .. } = self.design;
        warm_up_seconds + window_seconds + self.overhead(cell).as_secs_f64()
    }

    /// Has its parts as long as the user says, and the rest such that the whole takes about two minutes, or what the user says.
    pub fn set_timing(&mut self, timing: Timing) {
        // With any number of blocks it is known which servers can be driven side by side.
        self.design.blocks = timing.blocks.unwrap_or(1);
        if self.seconds_of_a_block() <= 0.0 {
            self.design.blocks = 0;
        }
        let (warm_up, window) = if self.design.blocks == 0 {
            in_turn(self.tried(), timing.whole)
        } else {
            BEFORE_BLOCKS
        };
        let (warm_up, window) = match self.design.load_command {
            // It takes as long as it takes.
            Some(_) => (Duration::ZERO, Duration::ZERO),
            None => (warm_up, window),
        };
        self.design.warm_up_seconds = timing.warm_up.unwrap_or(warm_up).as_secs_f64();
        self.design.window_seconds = timing.window.unwrap_or(window).as_secs_f64();
        if self.design.blocks > 0 && timing.blocks.is_none() {
            self.design.blocks = self.blocks_for(timing);
        }
    }

    /// How many blocks a session can have: within the time that there is; beside windows of the user's, for a fifth of their time.
    fn blocks_for(&self, timing: Timing) -> usize {
        let Design { repeats, window_seconds, .. } = self.design;
        let sessions = repeats.max(1) as f64;
        let free = match (timing.window, timing.whole) {
            (Some(_), None) => 0.2 * self.tried() as f64 * window_seconds,
            (_, whole) => {
                let design = Design { blocks: 0, ..self.design.clone() };
                let windows = Plan { design, ..self.clone() }.length();
                whole.unwrap_or(WHOLE).saturating_sub(windows).as_secs_f64()
            }
        };
        let blocks = (free / sessions / self.seconds_of_a_block()) as usize;
        blocks.clamp(least_blocks(repeats), MOST_BLOCKS)
    }

    /// What a cell takes beside warm-up and window, roughly.
    pub(super) fn overhead(&self, cell: &CellKey) -> Duration {
        let connections = u32::try_from(cell.concurrency).unwrap_or(u32::MAX);
        match self.design.load_command {
            // One run warms the server up, the next is measured.
            Some(_) => OVERHEAD + 2 * USUAL_RUN,
            None => OVERHEAD + OF_A_CONNECTION.saturating_mul(connections),
        }
    }

    /// The cells that are not unavailable from the start.
    pub(super) fn tried_cells(&self) -> impl Iterator<Item = CellKey> {
        cells(&self.design).into_iter().filter(|cell| self.why_unavailable(cell).is_none())
    }

    /// What one block at each number of connections takes, in seconds; 0 where nothing is driven side by side.
    pub(super) fn seconds_of_a_block(&self) -> f64 {
        self.design.concurrency.iter().map(|count| self.seconds_of_blocks(*count)).sum()
    }

    /// What one block at so many connections takes, in seconds; 0 where nothing is driven side by
    /// side.
    pub(crate) fn seconds_of_blocks(&self, concurrency: usize) -> f64 {
        let names = self.design.measured();
        let alive =
            names.filter(|name| !self.unavailable.contains_key(&((*name).to_owned(), concurrency)));
        let (alive, room) = (alive.count(), self.side_by_side(concurrency));
        if room < 2 || alive < 2 {
            return 0.0;
        }
        let groups = if alive <= room { 1 } else { (alive - 1).div_ceil(room - 1) };
        // The one that links groups is in each.
        let slices = 2 * (alive + groups - 1);
        let each = match self.design.load_command {
            Some(_) => USUAL_RUN.as_secs_f64(),
            None => slice_seconds(concurrency),
        };
        slices as f64 * each
    }
}

/// How many blocks each of so many sessions has at least; where there are too few sessions for a verdict, hardly any.
pub(super) fn least_blocks(repeats: usize) -> usize {
    if repeats < FEWEST_SESSIONS { 2 } else { FEWEST_BLOCKS.div_ceil(repeats) }
}

/// How long a slice lasts at so many connections: long enough for each to get several replies.
pub(crate) fn slice_length(concurrency: usize) -> Duration {
    /// From so many connections on slices are longer.
    const MANY: usize = 500;
    Duration::from_millis(if concurrency < MANY { 35 } else { 55 })
}

fn slice_seconds(concurrency: usize) -> f64 {
    let connections = u32::try_from(concurrency).unwrap_or(u32::MAX);
    let rest = OVERHEAD_OF_A_SLICE + OF_A_LAST_REPLY.saturating_mul(connections);
    (slice_length(concurrency) + rest).as_secs_f64()
}

/// Warm-up and window for so many cells that are measured in turn, such that all take about `whole`.
pub(super) fn in_turn(cells: usize, whole: Option<Duration>) -> (Duration, Duration) {
    let each = whole.unwrap_or(WHOLE) / u32::try_from(cells.max(1)).unwrap_or(u32::MAX);
    let load = each.saturating_sub(OVERHEAD);
    let warm_up = (load / 4).clamp(Duration::from_millis(200), Duration::from_secs(1));
    let window = load.saturating_sub(warm_up);
    (warm_up, window.clamp(Duration::from_millis(300), Duration::from_secs(10)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    #[test]
    fn two_minutes_are_filled_with_blocks_and_all_have_enough() {
        let mut plan = plan();
        plan.set_timing(Timing::default());
        assert!((110.0..=132.0).contains(&plan.length().as_secs_f64()), "{:?}", plan.length());
        assert!(plan.design.planned_blocks() >= FEWEST_BLOCKS);
    }

    #[test]
    fn what_the_user_says_is_kept() {
        let mut plan = plan();
        let window = Some(Duration::from_millis(50));
        plan.set_timing(Timing { window, blocks: Some(4), ..Timing::default() });
        assert_eq!((plan.design.window_seconds, plan.design.blocks), (0.05, 4));
        plan.set_timing(Timing { blocks: Some(0), ..Timing::default() });
        assert_eq!(plan.design.blocks, 0);
        assert!(plan.design.window_seconds >= 0.3);
    }

    #[test]
    fn where_nothing_is_driven_side_by_side_windows_fill_the_time() {
        let mut plan = plan();
        plan.behaviour.pattern = duality_load::Pattern::Serial;
        plan.set_timing(Timing::default());
        assert_eq!(plan.design.blocks, 0);
        assert!((60.0..=135.0).contains(&plan.length().as_secs_f64()), "{:?}", plan.length());
    }
}
