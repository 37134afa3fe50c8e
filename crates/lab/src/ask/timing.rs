//! The length of experiments, and the default lengths of their parts.

use std::time::Duration;

use crate::judge::verdict::{FEWEST_BLOCKS, FEWEST_SESSIONS};
use crate::measure::experiment::Experiment;
use crate::measure::length::{OVERHEAD, PIECES};
use crate::record::Design;

/// The default length of an experiment.
const WHOLE: Duration = Duration::from_secs(130);
/// Warm-up and window of a cell before blocks.
const BEFORE_BLOCKS: (Duration, Duration) = (Duration::from_millis(80), Duration::from_millis(120));
/// Warm-up and shortest window of a piece of a recording. In the warm-up, connections are opened.
const OF_REPLAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(600));
/// By default, a session has no more blocks than this number.
const MOST_BLOCKS: usize = 200;

/// The user's settings for the parts of an experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// The length of a cell's warm-up.
    pub warm_up: Option<Duration>,
    /// The length of a cell's window.
    pub window: Option<Duration>,
    /// The number of blocks of a session.
    pub blocks: Option<usize>,
    /// The length of the whole experiment.
    pub whole: Option<Duration>,
}

impl Experiment {
    /// Sets how long the parts are. The user's settings come first. The other parts fill the time
    /// of the whole. The user sets this time, or it is about two minutes.
    pub fn set_timing(&mut self, timing: Timing) {
        if self.replay.is_some() {
            return self.set_timing_of_replay(timing);
        }
        // With any number of blocks, the lab can tell which servers it can drive side by side.
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
            // The load command itself decides how long it runs.
            Some(_) => (Duration::ZERO, Duration::ZERO),
            None => (warm_up, window),
        };
        self.design.warm_up_seconds = timing.warm_up.unwrap_or(warm_up).as_secs_f64();
        self.design.window_seconds = timing.window.unwrap_or(window).as_secs_f64();
        if self.design.blocks > 0 && timing.blocks.is_none() {
            self.design.blocks = self.blocks_for(timing);
        }
    }

    /// Sets the timing of a replay: a few blocks, and pieces that fill the time.
    fn set_timing_of_replay(&mut self, timing: Timing) {
        self.design.blocks = timing.blocks.unwrap_or(least_blocks(self.design.repeats));
        let warm_up = timing.warm_up.unwrap_or(OF_REPLAY.0);
        self.design.warm_up_seconds = warm_up.as_secs_f64();
        self.design.window_seconds = 0.0;
        // The time without windows, and the number of pieces that share the rest.
        let fixed = self.length().as_secs_f64();
        let counts = self.design.concurrency.len() * self.design.planned_blocks();
        let pieces = (self.tried() + PIECES * counts).max(1) as f64;
        let free = timing.whole.unwrap_or(WHOLE).as_secs_f64() - fixed;
        let most = Duration::from_secs(10).as_secs_f64();
        let window = (free / pieces).clamp(OF_REPLAY.1.as_secs_f64(), most);
        // To the millisecond, since the time is written down and shown.
        let window = Duration::from_millis((1000.0 * window) as u64);
        self.design.window_seconds = timing.window.unwrap_or(window).as_secs_f64();
    }

    /// How many blocks a session can have within the available time. If the user sets the windows,
    /// blocks get a fifth of the windows' time.
    fn blocks_for(&self, timing: Timing) -> usize {
        let Design { repeats, window_seconds, .. } = self.design;
        let sessions = repeats.max(1) as f64;
        let free = match (timing.window, timing.whole) {
            (Some(_), None) => 0.2 * self.tried() as f64 * window_seconds,
            (_, whole) => {
                let design = Design { blocks: 0, ..self.design.clone() };
                let windows = Experiment { design, ..self.clone() }.length();
                whole.unwrap_or(WHOLE).saturating_sub(windows).as_secs_f64()
            }
        };
        let blocks = (free / sessions / self.seconds_of_a_block()) as usize;
        blocks.clamp(least_blocks(repeats), MOST_BLOCKS)
    }
}

/// The fewest blocks of a session, given the number of sessions. With too few sessions for a
/// verdict, two blocks are enough.
pub(super) fn least_blocks(repeats: usize) -> usize {
    if repeats < FEWEST_SESSIONS { 2 } else { FEWEST_BLOCKS.div_ceil(repeats) }
}

/// Warm-up and window for this many cells that are measured in turn, such that all cells take about
/// `whole`.
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
    use crate::measure::experiment::tests::experiment;

    #[test]
    fn two_minutes_are_filled_with_blocks_and_all_have_enough() {
        let mut experiment = experiment();
        experiment.set_timing(Timing::default());
        assert!(
            (110.0..=132.0).contains(&experiment.length().as_secs_f64()),
            "{:?}",
            experiment.length()
        );
        assert!(experiment.design.planned_blocks() >= FEWEST_BLOCKS);
    }

    #[test]
    fn what_the_user_says_is_kept() {
        let mut experiment = experiment();
        let window = Some(Duration::from_millis(50));
        experiment.set_timing(Timing { window, blocks: Some(4), ..Timing::default() });
        assert_eq!((experiment.design.window_seconds, experiment.design.blocks), (0.05, 4));
        experiment.set_timing(Timing { blocks: Some(0), ..Timing::default() });
        assert_eq!(experiment.design.blocks, 0);
        assert!(experiment.design.window_seconds >= 0.3);
    }

    #[test]
    fn where_nothing_is_driven_side_by_side_windows_fill_the_time() {
        let mut experiment = experiment();
        experiment.behaviour.pattern = duality_load::Pattern::Serial;
        experiment.set_timing(Timing::default());
        assert_eq!(experiment.design.blocks, 0);
        assert!(
            (60.0..=135.0).contains(&experiment.length().as_secs_f64()),
            "{:?}",
            experiment.length()
        );
    }
}
