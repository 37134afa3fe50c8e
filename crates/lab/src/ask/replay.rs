//! Recordings that are replayed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duality_load::{Cut, Pattern};
use duality_trace::{Trace, file};

use super::settings::{Misfit, Settings};
use crate::Mistake;
use crate::measure::behaviour::Behaviour;
use crate::measure::experiment::Experiment;
use crate::measure::recording::Replay;
use crate::units::parse_place;

/// Reads a recording.
///
/// # Errors
///
/// The file, what is wrong with it and the remedy, in one line.
pub fn read_trace(path: &Path) -> Result<Arc<Trace>, Mistake> {
    file::read(path).map(Arc::new).map_err(|error| error.to_string().into())
}

/// The recording that `settings` replay, if they name one.
///
/// # Errors
///
/// The error names the recording that cannot be read, or the setting that does not fit.
pub(super) fn of(settings: &Settings, behaviour: &Behaviour) -> Result<Option<Replay>, Misfit> {
    let Some(path) = &settings.trace else {
        let keys = [
            ("users", settings.users.is_some()),
            ("speed", settings.speed.is_some()),
            ("at", settings.at.is_some()),
            ("bunch", settings.bunch.is_some()),
            ("client-rate", settings.client_rate.is_some()),
            ("trace", behaviour.pattern == Pattern::Trace),
        ];
        return match keys.into_iter().find(|(_, is_said)| *is_said) {
            Some((key, _)) => {
                Err(Misfit::new(key, "a recording is replayed: name its file as trace"))
            }
            None => Ok(None),
        };
    };
    let misfit = |key, problem: &'static str| Err(Misfit::new(key, problem));
    if behaviour.pattern != Pattern::Trace {
        return misfit("pattern", "a recording has its own pattern, trace: leave it out");
    }
    if settings.concurrency.is_some() {
        return misfit("concurrency", "a recording has its own connections: give users");
    }
    if settings.hosts.is_some() {
        return misfit("hosts", "a recording is replayed from this machine: leave it out");
    }
    let trace = read_trace(path).map_err(|problem| Misfit::new("trace", problem))?;
    let at = settings.at.as_deref().map(parse_place).transpose();
    let at = at.map_err(|problem| Misfit::new("at", problem))?;
    let cut = Cut {
        speed: settings.speed.unwrap_or(1.0),
        at,
        keep_alive: behaviour.keep_alive,
        bunch: settings.bunch.unwrap_or(1),
        client_rate: settings.client_rate,
        ..Cut::of(Duration::ZERO)
    };
    let replay = Replay::new(trace, path, cut);
    if settings.root.is_some() {
        return Ok(Some(replay));
    }
    let written = replay.with_files();
    written.map(Some).map_err(|error| Misfit::new("trace", format!("its files: {error}")))
}

/// The largest multiple of a recording's users. Each user is laid over the others, one by one.
const MOST_USERS: usize = 1_000_000;

/// Finds the numbers of users that make too little load to measure. Their cells are unavailable.
///
/// # Errors
///
/// The first part of the recording that does not fit the service.
pub(super) fn check(experiment: &mut Experiment) -> Result<(), Misfit> {
    let Some(replay) = experiment.replay.clone() else { return Ok(()) };
    let length = Duration::from_secs_f64(experiment.design.window_seconds);
    for users in experiment.design.concurrency.clone() {
        if users > MOST_USERS {
            let problem = format!(
                "the recording has {:.2} requests a second, so it takes {users} times its users to \
                 measure, and longer to plan than to measure: record a busier time, or give a part of \
                 the log (`duality trace from --since`)",
                replay.record().rate(1)
            );
            return Err(Misfit::new("trace", problem));
        }
        if let Some(why) = replay.too_few(users, length) {
            let names: Vec<String> = experiment.design.measured().map(str::to_owned).collect();
            let cells = names.into_iter().map(|name| ((name, users), why.clone()));
            experiment.unavailable.extend(cells);
        } else if let Some(problem) = experiment.misfit(users) {
            return Err(Misfit::new("trace", problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_is_none_is_named() {
        let message = read_trace(Path::new("/no/such.trace")).unwrap_err().to_string();
        assert!(message.contains("/no/such.trace") && !message.contains('\n'), "{message}");
    }
}
