//! How many connections are open at once, or how many times the users of a recording there are.

use super::settings::{Misfit, Settings};
use crate::format::OF_THE_COMMAND;
use crate::measure::experiment::Experiment;
use crate::measure::load_command;

/// The numbers of connections that are compared by default, as in ZeroHTTPd's and Kerneis's plots.
pub(super) const CONCURRENCY: [usize; 4] = [1, 10, 100, 1000];

/// The requested numbers of connections, or else those of the usual numbers that make sense.
pub(super) fn concurrency(
    is_own: bool,
    experiment: &Experiment,
    settings: &Settings,
) -> Result<Vec<usize>, Misfit> {
    let misfit = |problem: String| match is_own
        && experiment.exchange.is_none()
        && !experiment.speaks_http
    {
        true => Misfit::new(
            Misfit::WHOLE,
            format!("{problem}; give a service of your own an exchange(request, reply)"),
        ),
        false => Misfit::new(Misfit::WHOLE, problem),
    };
    if let Some(replay) = &experiment.replay {
        return Ok(settings.users.clone().unwrap_or_else(|| vec![replay.usual_users()]));
    }
    if let Some(words) = &settings.load_command {
        return concurrency_of_command(words, settings.concurrency.as_deref());
    }
    if let Some(asked) = &settings.concurrency {
        let problem = asked.iter().find_map(|&connections| experiment.misfit(connections));
        return problem.map_or_else(|| Ok(asked.clone()), |problem| Err(misfit(problem)));
    }
    let problems = CONCURRENCY.map(|connections| (connections, experiment.misfit(connections)));
    let usual: Vec<usize> = problems
        .iter()
        .filter(|(_, problem)| problem.is_none())
        .map(|(connections, _)| *connections)
        .collect();
    // If even the largest number is wrong, its size is not the reason.
    match problems.into_iter().rev().find_map(|(_, problem)| problem) {
        Some(problem) if usual.is_empty() => Err(misfit(problem)),
        _ => Ok(usual),
    }
}

/// The numbers of connections of a load command. A command without a placeholder for the number has
/// one fixed number, which the user may know.
fn concurrency_of_command(words: &[String], asked: Option<&[usize]>) -> Result<Vec<usize>, Misfit> {
    match (load_command::takes_connections(words), asked) {
        (_, Some([one])) => Ok(vec![*one]),
        (true, Some(asked)) => Ok(asked.to_vec()),
        (true, None) => Ok(vec![1, 10, 100]),
        (false, None) => Ok(vec![OF_THE_COMMAND]),
        (false, Some(_)) => {
            let problem = "the load command opens as many connections each time: put {connections} into it, or give one number";
            Err(Misfit::new("concurrency", problem))
        }
    }
}
