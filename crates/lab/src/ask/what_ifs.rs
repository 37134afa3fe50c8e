//! What-ifs: the experiments that ask what would change the answer of a replay.
//!
//! Each of them replays the same recording with one thing different. They are a plan like any
//! other, so that they share a budget, and each has a report of its own.

use std::path::Path;
use std::time::Duration;

use duality_load::Cut;

use super::file::{Entry, Plan};
use super::replay::read_trace;
use super::settings::{Misfit, Settings};
use crate::measure::recording::Replay;

/// The users that come at the same time where traffic is burstier.
const BUNCH: usize = 10;

/// The bytes a second that a slow client takes: a quarter of a megabit, a bad mobile connection.
const SLOW: u64 = 32_000;

/// The plan of the experiment in `settings`, which replays a recording, and its what-ifs.
///
/// # Errors
///
/// The recording that cannot be read.
pub fn plan(settings: &Settings) -> Result<Plan, Misfit> {
    let path = settings.trace.as_deref().unwrap_or(Path::new(""));
    let trace = read_trace(path).map_err(|problem| Misfit::new("trace", problem))?;
    let cut = Cut { speed: settings.speed.unwrap_or(1.0), ..Cut::of(Duration::ZERO) };
    let usual = || vec![Replay::new(trace, path, cut).usual_users()];
    let users = settings.users.clone().unwrap_or_else(usual);
    let same = Settings { users: Some(users.clone()), ..settings.clone() };
    let twice = users.iter().map(|count| 2 * count).collect();
    let mut experiments = vec![
        Entry::made("as-recorded", same.clone()),
        Entry::made("twice-the-users", Settings { users: Some(twice), ..same.clone() }),
        Entry::made("in-bursts", Settings { bunch: Some(BUNCH), ..same.clone() }),
        Entry::made("slow-clients", Settings { client_rate: Some(SLOW), ..same.clone() }),
    ];
    if settings.close != Some(true) {
        let close = Settings { close: Some(true), ..same };
        experiments.push(Entry::made("no-keep-alive", close));
    }
    Ok(Plan {
        title: format!("What would change the answer for {}?", path.display()),
        source: String::new(),
        experiments,
        peers: Vec::new(),
        budget: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_what_if_differs_from_the_recording_in_one_thing() {
        let trace =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/traces/pages-2018.trace"));
        let settings = Settings { trace: Some(trace.to_owned()), ..Settings::default() };
        let plan = plan(&settings).unwrap();
        let base = &plan.experiments[0].settings;
        let users = base.users.clone().unwrap();
        assert_eq!(users.len(), 1);
        for entry in &plan.experiments[1..] {
            let own = &entry.settings;
            let differs = [
                own.users.as_ref() != Some(&users),
                own.bunch.is_some(),
                own.client_rate.is_some(),
                own.close.is_some(),
            ];
            assert_eq!(differs.iter().filter(|one| **one).count(), 1, "{}", entry.name);
        }
        let closed = Settings { close: Some(true), users: Some(vec![5]), ..settings };
        assert_eq!(super::plan(&closed).unwrap().experiments.len(), 4);
        let none = Settings { trace: Some("/no/such.trace".into()), ..Settings::default() };
        assert_eq!(super::plan(&none).unwrap_err().key, "trace");
    }
}
