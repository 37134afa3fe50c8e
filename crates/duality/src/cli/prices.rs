//! The costs of operations on this machine, for the reasons of a recommendation.

use std::time::Duration;

use duality_costs::run::Effort;
use duality_lab::measure::Clock;
use duality_lab::measure::experiment::Experiment;
use duality_runtime::log;

use super::model;

/// Measures the costs of operations on this machine, for the reasons of a recommendation. The
/// measurement takes two seconds, which are nothing beside an experiment of minutes. A short
/// experiment skips it. On a slow machine, it ends after a twentieth of the available time.
pub(super) fn find(experiments: &mut [Experiment], clock: Clock<'_>) {
    const LONG: Duration = Duration::from_secs(60);
    const SHARE: u32 = 20;
    // Costs of this machine say nothing about other hosts.
    let is_here = |experiment: &&Experiment| {
        let design = &experiment.design;
        // Builds differ by what no architecture costs.
        !design.architectures.is_empty() && design.topology.is_none() && design.builds.is_none()
    };
    if !experiments.iter().any(|experiment| is_here(&experiment)) {
        return;
    }
    let length =
        experiments.iter().map(Experiment::length).fold(Duration::ZERO, Duration::saturating_add);
    let time = clock.left().unwrap_or(length);
    if length < LONG || time < LONG {
        return;
    }
    match model::unit_costs(Effort::QUICK, Some(time / SHARE)) {
        Ok(costs) => {
            for experiment in experiments.iter_mut().filter(|one| one.design.topology.is_none()) {
                experiment.unit_costs = costs.clone();
            }
        }
        Err(problem) => {
            log::tell(format_args!("the answer will give no reasons for differences: {problem}"));
        }
    }
}
