//! A raced experiment: sessions in rounds through the loads. Subjects that are worse for sure get
//! no more time. Loads that are answered get none either.
//!
//! ```text
//!   round 1  1,000: all ────┤  100: all ────┤  10: all ────┤  1: all ────┤   the most first
//!   round 2  1,000: fewer ─┤ 100: fewer ┤ 10: two ┤ 1: fewer ─┤
//!   round 3  …                                              three sessions at least
//!   then     the load that is farthest from its answer, again and again, until the time is up
//! ```
//!
//! [`race`](crate::judge::race) has the rule, a function of the records so far.

use super::clock::Clock;
use super::lanes::{lane, most_blocks};
use super::part::Part;
use super::stage::Stage;
use super::{Journal, measure, session, windows_in_turn};
use crate::judge::race::{BLOCKS_OF_A_SESSION, Lane};
use crate::measure::experiment::Experiment;
use crate::record::results;
use crate::record::{Cell, CellKey};

/// Races until all loads are answered or the time is up: the `clock`'s, or else what the experiment
/// was planned to take. Returns whether the records are complete.
pub(super) fn run(
    experiment: &Experiment,
    journal: &mut Journal,
    clock: Clock<'_>,
    stage: &Stage,
) -> Result<bool, results::Error> {
    let clock = clock.within(experiment.length());
    let mut parts = Part::all(experiment);
    let mut lanes: Vec<Lane> = Vec::new();
    for part in &parts {
        if let Some(load) = part.load()
            && lanes.iter().all(|lane| lane.concurrency != load)
        {
            lanes.push(lane(journal, load));
        }
    }
    // Within each repeat, the most connections come first: servers differ most there.
    parts.sort_by_key(|part| (part.repeat(), std::cmp::Reverse(part.load())));
    let mut complete = true;
    for (place, part) in parts.iter().enumerate() {
        if place > 0 && clock.is_over() {
            return Ok(false);
        }
        match part {
            Part::InTurn(keys) => {
                let mut window =
                    |key: &CellKey| measure(experiment, key, clock.interrupted(), stage);
                let done = results::done(&journal.records.cells);
                let tell = |cell: Cell| journal.cell(cell);
                let keys = keys.iter().filter(|key| !done.contains(key));
                complete &=
                    windows_in_turn(experiment, keys, &mut window, &|| clock.is_over(), tell)?;
            }
            Part::Session(keys) => {
                let seconds = |part: &Part| seconds(experiment, part, &lanes);
                let own = clock.share(seconds(part), parts[place..].iter().map(seconds).sum());
                complete &= run_session(experiment, keys, &mut lanes, journal, own, stage)?;
            }
        }
    }
    while complete && !clock.is_over() {
        let Some(keys) = further(experiment, &lanes, clock) else { break };
        // The records are complete without this session.
        run_session(experiment, &keys, &mut lanes, journal, clock, stage)?;
    }
    Ok(complete)
}

fn run_session(
    experiment: &Experiment,
    keys: &[CellKey],
    lanes: &mut [Lane],
    journal: &mut Journal,
    clock: Clock<'_>,
    stage: &Stage,
) -> Result<bool, results::Error> {
    let Some(load) = keys.first().map(|key| key.concurrency) else { return Ok(true) };
    let Some(before) = lanes.iter_mut().find(|lane| lane.concurrency == load) else {
        return Ok(true);
    };
    let going_on: Vec<CellKey> =
        keys.iter().filter(|key| before.goes_on.contains(&key.subject)).cloned().collect();
    let complete = session::run(experiment, &going_on, journal, clock, stage)?;
    *before = lane(journal, load);
    Ok(complete)
}

/// About how long a part takes, in seconds.
fn seconds(experiment: &Experiment, part: &Part, lanes: &[Lane]) -> f64 {
    let keys = match part {
        Part::InTurn(keys) => {
            return keys.iter().map(|key| experiment.seconds_of_a_cell(key)).sum();
        }
        Part::Session(keys) => keys,
    };
    let lane = lanes.iter().find(|lane| part.load() == Some(lane.concurrency));
    let goes_on = |key: &&CellKey| {
        experiment.why_unavailable(key).is_none()
            && lane.is_none_or(|lane| lane.goes_on.contains(&key.subject))
    };
    let keys: Vec<&CellKey> = keys.iter().filter(goes_on).collect();
    let blocks = lane.map_or(BLOCKS_OF_A_SESSION, most_blocks);
    let slice = part.load().map_or(0.0, |load| experiment.seconds_of_a_slice(load));
    let of_one = |key: &CellKey| experiment.seconds_of_a_cell(key) + 2.0 * slice * blocks as f64;
    keys.into_iter().map(of_one).sum()
}

/// The cells of a further session, at the open load that wants most, if there is time for it.
fn further(experiment: &Experiment, lanes: &[Lane], clock: Clock<'_>) -> Option<Vec<CellKey>> {
    let left = clock.left()?.as_secs_f64();
    let session = |lane: &Lane| {
        let key = |name: &String| CellKey {
            repeat: lane.last_session.map_or(0, |last| last + 1),
            subject: name.clone(),
            concurrency: lane.concurrency,
        };
        let keys = lane.goes_on.iter().map(key);
        keys.filter(|key| experiment.why_unavailable(key).is_none()).collect::<Vec<CellKey>>()
    };
    let open = lanes.iter().filter(|lane| !lane.is_answered());
    let mut open: Vec<(&Lane, Vec<CellKey>)> =
        open.map(|lane| (lane, session(lane))).filter(|(_, keys)| keys.len() > 1).collect();
    open.retain(|(_, keys)| seconds(experiment, &Part::Session(keys.clone()), lanes) <= left);
    let wants = |lane: &Lane| lane.wanted / lane.sessions.max(1) as f64;
    let most = open.into_iter().max_by(|(one, _), (other, _)| {
        // Among equals, the one with fewer sessions.
        wants(one).total_cmp(&wants(other)).then(other.sessions.cmp(&one.sessions))
    });
    most.map(|(_, keys)| keys)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;
    use crate::measure::experiment::tests::experiment;

    fn lane(concurrency: usize, wanted: f64, is_told: bool, sessions: usize) -> Lane {
        Lane {
            concurrency,
            goes_on: ["threads", "epoll"].map(str::to_owned).to_vec(),
            out: Vec::new(),
            standings: Vec::new(),
            blocks: 10 * sessions,
            sessions,
            last_session: sessions.checked_sub(1),
            critical: Some(0.1),
            is_told,
            wanted,
        }
    }

    #[test]
    fn a_further_session_goes_to_the_open_load_that_wants_most() {
        let mut experiment = experiment();
        experiment.design.blocks = 5;
        let interrupted = AtomicBool::new(false);
        let minutes = Clock::new(&interrupted, Some(Duration::from_secs(600)));
        let next = |lanes: &[Lane], clock| {
            let keys: Vec<CellKey> = further(&experiment, lanes, clock)?;
            Some((keys[0].concurrency, keys[0].repeat, keys.len()))
        };
        let lanes = [lane(1, 2.0, false, 3), lane(10, 8.0, false, 4), lane(100, 16.0, true, 3)];
        assert_eq!(next(&lanes, minutes), Some((10, 4, 2)));
        // What was asked often without an end does not keep all the time.
        let lanes = [lane(1, 2.0, false, 3), lane(10, 8.0, false, 40)];
        assert_eq!(next(&lanes, minutes), Some((1, 3, 2)));
        assert_eq!(next(&[lane(100, 16.0, true, 3)], minutes), None);
        let second = Clock::new(&interrupted, Some(Duration::from_millis(500)));
        assert_eq!(next(&lanes, second), None);
        assert_eq!(next(&lanes, Clock::new(&interrupted, None)), None);
    }

    #[test]
    fn what_is_out_takes_no_time_and_a_told_load_little() {
        let mut experiment = experiment();
        experiment.design.blocks = 5;
        let part = |lane: &Lane| {
            let key = |name: &str| CellKey {
                repeat: 1,
                subject: name.to_owned(),
                concurrency: lane.concurrency,
            };
            Part::Session(["threads", "epoll"].map(key).to_vec())
        };
        let open = lane(10, 4.0, false, 1);
        let whole = seconds(&experiment, &part(&open), std::slice::from_ref(&open));
        let half = Lane { goes_on: vec!["epoll".into()], ..open.clone() };
        let decided = Lane { is_told: true, ..open.clone() };
        let of_half = seconds(&experiment, &part(&open), &[half]);
        assert!((2.0 * of_half - whole).abs() < 1e-9, "{of_half} of {whole}");
        assert!(seconds(&experiment, &part(&open), &[decided]) < whole);
    }
}
