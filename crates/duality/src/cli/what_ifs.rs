//! `duality compare --load-from my.trace --what-ifs`: the replay, and what would change its answer.

use std::time::Duration;

use duality_lab::ask::settings::Misfit;
use duality_lab::ask::{budget, what_ifs};
use duality_lab::measure::experiment::Experiment;

use super::compare::{Arguments, Shown};
use super::plan::{self, How};
use super::{Failure, experiment, flag};
use crate::catalogue::Catalogue;

/// The time of all experiments, without `--budget`.
const USUAL: Duration = Duration::from_secs(12 * 60);

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    if arguments.baseline.is_some() {
        let problem = "several experiments have no common baseline: leave it out";
        return Err(flag(Misfit::new("baseline", problem)));
    }
    let out = arguments.out();
    let mut settings = arguments.settings();
    settings.service.clone_from(&arguments.subject);
    let plan = what_ifs::plan(&settings).map_err(flag)?;
    let limit = arguments.budget.unwrap_or(USUAL);
    let share = budget::aim(limit, plan.experiments.len());
    let experiments = plan.experiments.iter().map(|entry| {
        let made = experiment::of(catalogue, &entry.settings, &arguments.tuning, &[], Some(share))?;
        Ok(Experiment { origin: Some(plan::origin(&plan, entry)), ..made })
    });
    let experiments: Result<Vec<Experiment>, Misfit> = experiments.collect();
    let mut experiments = experiments.map_err(flag)?;
    budget::fit(&mut experiments, limit).map_err(|problem| flag(Misfit::new("budget", problem)))?;
    if arguments.check {
        return plan::explain_all(&plan, &experiments);
    }
    let shown = Shown { tables: arguments.tables, baseline: None, asked: "" };
    plan::carry_out(
        &plan,
        experiments,
        &How {
            out: &out,
            resume: arguments.resume,
            limit: Some(limit),
            shown,
            live: arguments.live,
        },
    )
}
