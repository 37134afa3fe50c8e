//! Fits experiments into the available time.
//!
//! An experiment that fits stays as it is. Otherwise the experiment gets fewer blocks, down to the
//! number that a verdict needs. Then its windows shrink, down to 0.5 s, and its warm-ups, down to
//! 0.2 s. Then it gets fewer repeats, down to three. Settings below these bounds stay. An
//! experiment that still does not fit is refused. The plan keeps a tenth of the time in reserve,
//! because servers take time to start.

use std::time::Duration;

use super::timing::least_blocks;
use crate::Mistake;
use crate::measure::experiment::Experiment;
use crate::record::Design;

/// The share of the budget that is planned.
const PLANNED: f64 = 0.9;
/// The share of its time that an experiment plans for, if it may choose the length of its windows.
/// The estimate omits the cost of connections.
const AIMED: f64 = 0.85;
/// The shortest window that the budget may choose.
const SHORTEST_WINDOW: f64 = 0.5;
/// The shortest warm-up that the budget may choose.
const SHORTEST_WARM_UP: f64 = 0.2;
/// The fewest repeats that the budget may choose for a cell.
const FEWEST_REPEATS: usize = 3;

/// The time that each of several experiments plans for if no length of windows is set.
pub fn aim(budget: Duration, experiments: usize) -> Duration {
    (budget / u32::try_from(experiments.max(1)).unwrap_or(u32::MAX)).mul_f64(AIMED)
}

/// Fits `experiments`, which run one after the other, into `budget`. Each experiment gets its share
/// as its [`budget`](Experiment::budget), and its [`economies`](Experiment::economies) list the
/// reductions.
///
/// # Errors
///
/// The least time that the experiments need, and the remedy.
pub fn fit(experiments: &mut [Experiment], budget: Duration) -> Result<(), Mistake> {
    let whole = budget.as_secs_f64();
    let costs: Vec<Cost> = experiments.iter().map(Cost::of).collect();
    let (mut least, mut asked) = (0.0, 0.0);
    for cost in &costs {
        least += cost.least();
        asked += cost.asked();
    }
    if least > PLANNED * whole {
        let needed = (least / PLANNED).ceil();
        let with_blocks = costs.iter().any(|cost| cost.blocks > 0);
        let blocks = if with_blocks { ", the fewest blocks for a verdict" } else { "" };
        return Err(format!(
            "{FEWEST_REPEATS} repeats{blocks} and windows of {SHORTEST_WINDOW} s take {needed} s: \
             give {needed}s, or fewer architectures or numbers of connections"
        )
        .into());
    }
    for (experiment, cost) in experiments.iter_mut().zip(&costs) {
        let share = if asked <= PLANNED * whole {
            cost.asked() * whole / asked.max(f64::MIN_POSITIVE)
        } else {
            // The remaining time goes to the experiments that ask for most.
            let wanted = (cost.asked() - cost.least()) / (asked - least);
            let planned = cost.least() + (PLANNED * whole - least) * wanted;
            cost.economise(planned, experiment, budget);
            planned / PLANNED
        };
        experiment.budget = Some(Duration::from_secs_f64(share));
    }
    Ok(())
}

/// The cost of an experiment, in seconds.
struct Cost {
    /// The cells of a repeat that are available.
    cells: f64,
    /// The time that the cells take together, without their warm-ups and windows.
    fixed: f64,
    /// The time of a block, for each number of connections.
    of_blocks: f64,
    blocks: usize,
    repeats: usize,
    warm_up: f64,
    window: f64,
}

impl Cost {
    fn of(experiment: &Experiment) -> Self {
        let Design { repeats, blocks, warm_up_seconds, window_seconds, .. } = experiment.design;
        let tried = experiment.tried_cells().filter(|cell| cell.repeat == 0);
        let fixed: Vec<f64> = tried.map(|cell| experiment.overhead(&cell).as_secs_f64()).collect();
        Self {
            cells: fixed.len() as f64,
            fixed: fixed.iter().sum(),
            of_blocks: experiment.seconds_of_a_block(),
            blocks,
            repeats,
            warm_up: warm_up_seconds,
            window: window_seconds,
        }
    }

    fn takes(&self, repeats: usize, load: f64, blocks: usize) -> f64 {
        repeats as f64 * (self.fixed + self.cells * load + blocks as f64 * self.of_blocks)
    }

    fn asked(&self) -> f64 {
        self.takes(self.repeats, self.warm_up + self.window, self.blocks)
    }

    fn least(&self) -> f64 {
        self.takes(self.fewest(), self.shortest(), self.fewest_blocks(self.fewest()))
    }

    fn fewest_blocks(&self, repeats: usize) -> usize {
        self.blocks.min(least_blocks(repeats))
    }

    fn fewest(&self) -> usize {
        self.repeats.min(FEWEST_REPEATS)
    }

    /// The shortest warm-up and window together.
    fn shortest(&self) -> f64 {
        self.warm_up.min(SHORTEST_WARM_UP) + self.window.min(SHORTEST_WINDOW)
    }

    /// Shortens `experiment` to `seconds`, which are at least the experiment's minimum.
    fn economise(&self, seconds: f64, experiment: &mut Experiment, budget: Duration) {
        let asked = self.warm_up + self.window;
        let mut fewer = (self.fewest_blocks(self.repeats)..self.blocks).rev();
        if let Some(blocks) =
            fewer.find(|blocks| self.takes(self.repeats, asked, *blocks) <= seconds)
        {
            experiment.economies.push(format!(
                "to keep the budget of {:.0} s: {blocks} blocks a session in place of {}",
                budget.as_secs_f64(),
                self.blocks
            ));
            experiment.design.blocks = blocks;
            return;
        }
        let mut possible = (self.fewest()..=self.repeats).rev();
        let fits = |repeats: &usize| {
            self.takes(*repeats, self.shortest(), self.fewest_blocks(*repeats)) <= seconds
        };
        let repeats = possible.find(fits).unwrap_or(self.fewest());
        experiment.design.blocks = self.fewest_blocks(repeats);
        let of_blocks = experiment.design.blocks as f64 * self.of_blocks;
        let load = (seconds / repeats as f64 - self.fixed - of_blocks) / self.cells.max(1.0);
        let load = load.clamp(self.shortest(), self.warm_up + self.window);
        // Warm-up and window get shorter by the same share, unless one of them is at its bound.
        let warm_up = self.warm_up * load / (self.warm_up + self.window);
        let most = load - self.window.min(SHORTEST_WINDOW);
        let warm_up = warm_up.max(self.warm_up.min(SHORTEST_WARM_UP)).min(most);
        // Round up slightly, so that unchanged parts do not lose a millisecond.
        let milliseconds = |seconds: f64| (seconds * 1000.0 + 1e-6).floor() / 1000.0;
        let (warm_up, window) = (milliseconds(warm_up), milliseconds(load - warm_up));
        if (repeats, warm_up, window) == (self.repeats, self.warm_up, self.window) {
            return;
        }
        let timing = |repeats, window, warm_up| {
            let plural = if repeats == 1 { "" } else { "s" };
            match window > 0.0 {
                true => {
                    format!("{repeats} repeat{plural} of {window} s after {warm_up} s of warm-up")
                }
                // A load command decides how long it runs.
                false => format!("{repeats} repeat{plural}"),
            }
        };
        experiment.economies.push(format!(
            "to keep the budget of {:.0} s: {} in place of {}",
            budget.as_secs_f64(),
            timing(repeats, window, warm_up),
            timing(self.repeats, milliseconds(self.window), milliseconds(self.warm_up)),
        ));
        experiment.design.repeats = repeats;
        experiment.design.warm_up_seconds = warm_up;
        experiment.design.window_seconds = window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::experiment::tests::experiment;
    use crate::record::design::tests::design;

    /// An experiment of six cells in each repeat, with these numbers and times.
    fn asked(repeats: usize, warm_up_seconds: f64, window_seconds: f64) -> Experiment {
        let design = Design { repeats, warm_up_seconds, window_seconds, ..design() };
        Experiment { design, ..experiment() }
    }

    fn shape(experiment: &Experiment) -> (usize, f64, f64) {
        let Design { repeats, warm_up_seconds, window_seconds, .. } = experiment.design;
        (repeats, warm_up_seconds, window_seconds)
    }

    fn fitted(experiment: Experiment, seconds: u64) -> Experiment {
        let mut experiments = [experiment];
        fit(&mut experiments, Duration::from_secs(seconds)).unwrap();
        let [experiment] = experiments;
        assert!(
            experiment.length().as_secs_f64() <= PLANNED * seconds as f64,
            "{:?}",
            experiment.length()
        );
        experiment
    }

    #[test]
    fn what_fits_stays() {
        let experiment = fitted(asked(5, 0.5, 2.0), 120);
        assert_eq!(shape(&experiment), (5, 0.5, 2.0));
        assert_eq!(experiment.budget, Some(Duration::from_secs(120)));
        assert!(experiment.economies.is_empty());
    }

    #[test]
    fn who_may_choose_its_windows_gives_up_nothing() {
        let budget = Duration::from_secs(60);
        let (warm_up, window) = crate::ask::timing::in_turn(18, Some(aim(budget, 1)));
        let experiment = fitted(asked(3, warm_up.as_secs_f64(), window.as_secs_f64()), 60);
        assert!(
            experiment.economies.is_empty() && experiment.length().as_secs() > 45,
            "{:?}",
            experiment.length()
        );
    }

    #[test]
    fn windows_get_shorter_before_repeats_get_fewer() {
        let experiment = fitted(asked(5, 0.5, 2.0), 60);
        let (repeats, warm_up, window) = shape(&experiment);
        assert_eq!(repeats, 5);
        assert!((0.2..0.5).contains(&warm_up) && (0.5..2.0).contains(&window));
        assert!(
            experiment.economies[0].contains("in place of 5 repeats of 2 s"),
            "{:?}",
            experiment.economies
        );

        let experiment = fitted(asked(9, 0.5, 2.0), 30);
        let (repeats, warm_up, window) = shape(&experiment);
        assert!((3..9).contains(&repeats));
        assert!(warm_up >= 0.19 && window >= 0.49, "{warm_up} {window}");
    }

    #[test]
    fn what_was_asked_to_be_little_stays_little() {
        let experiment = fitted(asked(1, 0.0, 0.3), 4);
        assert_eq!(shape(&experiment), (1, 0.0, 0.3));
        let mut experiments = [asked(2, 0.0, 0.3)];
        assert!(fit(&mut experiments, Duration::from_secs(4)).is_err());
    }

    #[test]
    fn what_cannot_fit_is_refused_with_what_would() {
        let refused =
            fit(&mut [asked(5, 0.5, 2.0)], Duration::from_secs(10)).unwrap_err().to_string();
        let needed: u64 =
            refused.split("give ").nth(1).unwrap().split('s').next().unwrap().parse().unwrap();
        assert!(refused.contains("3 repeats and windows of 0.5 s"), "{refused}");
        fitted(asked(5, 0.5, 2.0), needed);
        assert!(fit(&mut [asked(5, 0.5, 2.0)], Duration::from_secs(needed - 1)).is_err());
    }

    #[test]
    fn experiments_share_a_budget_and_the_longest_gives_most() {
        let mut experiments = [asked(3, 0.2, 0.5), asked(3, 1.0, 10.0)];
        fit(&mut experiments, Duration::from_secs(100)).unwrap();
        assert_eq!(shape(&experiments[0]), (3, 0.2, 0.5));
        assert!(experiments[1].design.window_seconds < 10.0);
        let shares: f64 =
            experiments.iter().map(|experiment| experiment.budget.unwrap().as_secs_f64()).sum();
        assert!((shares - 100.0).abs() < 1e-6, "{shares}");
    }
}
