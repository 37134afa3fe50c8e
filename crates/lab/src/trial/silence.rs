//! Finds a candidate that reads requests and answers none, while others answer.
//!
//! A server counts a request's time when it has answered it, so its own figures hide requests that
//! never end. Slow replies alone prove nothing. So a candidate is silent only if another one has
//! answered requests that began later, and only after a time that no request may take. Connections
//! without a request do not count: a balancer's probes, and clients that rest.

use std::time::{Duration, Instant};

use duality_load::Slo;

use super::queue::STUCK;

/// A candidate is not judged by fewer requests.
const FEWEST: u64 = 20;

/// What a candidate has done up to a look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Progress {
    /// Requests of which the first bytes were read. None, if the service defines no requests.
    pub(super) begun: u64,
    /// Requests that were answered.
    pub(super) replies: u64,
}

impl Progress {
    /// The sum of this and of what a later server has done.
    pub(super) fn and(self, later: Self) -> Self {
        Self { begun: self.begun + later.begun, replies: self.replies + later.replies }
    }
}

/// A silent candidate.
#[derive(Debug, PartialEq)]
pub(super) struct Silent {
    pub(super) place: usize,
    /// The requests that it has read since its last reply.
    pub(super) requests: u64,
    /// The time in which another candidate answered, and this one did not.
    pub(super) time: Duration,
}

/// The candidates since their last replies.
#[derive(Debug)]
pub(super) struct Watch {
    /// A candidate may need this time for a reply, although another one is faster.
    longest: Duration,
    quiet: Vec<Quiet>,
}

#[derive(Clone, Debug, Default)]
struct Quiet {
    /// What the candidate had done at its last reply.
    then: Progress,
    /// When it had read [`FEWEST`] requests since, with what all had done by then.
    full: Option<(Instant, Vec<Progress>)>,
}

impl Watch {
    /// Nothing is known of any candidate yet.
    pub(super) fn new(slo: Option<Slo>) -> Self {
        let longest = slo.map_or(STUCK, |slo| slo.limit.max(STUCK));
        Self { longest, quiet: Vec::new() }
    }

    /// Looks at what all candidates have done; those that are out are `None`.
    pub(super) fn look(&mut self, now: Instant, all: &[Option<Progress>]) -> Option<Silent> {
        self.quiet.resize(all.len(), Quiet::default());
        let known = || all.iter().map(|one| one.unwrap_or_default()).collect::<Vec<_>>();
        for (place, progress) in all.iter().enumerate() {
            let Some(progress) = *progress else { continue };
            let quiet = &mut self.quiet[place];
            if progress.replies != quiet.then.replies {
                *quiet = Quiet { then: progress, full: None };
            }
            let requests = progress.begun.saturating_sub(quiet.then.begun);
            if requests < FEWEST {
                continue;
            }
            let (since, then) = quiet.full.get_or_insert_with(|| (now, known()));
            // Replies to all that had begun by then prove nothing.
            let answers = all
                .iter()
                .zip(then)
                .any(|(one, then)| one.is_some_and(|one| one.replies >= then.begun + FEWEST));
            let time = now.saturating_duration_since(*since);
            if answers && time >= self.longest {
                return Some(Silent { place, requests, time });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(begun: u64, replies: u64) -> Option<Progress> {
        Some(Progress { begun, replies })
    }

    /// Looks once a second; each look has what the two candidates have done.
    fn looked(looks: &[[Option<Progress>; 2]]) -> Vec<Option<(usize, u64)>> {
        let (start, mut watch) = (Instant::now(), Watch::new(None));
        let look = |(second, all): (u64, &[Option<Progress>; 2])| {
            let silent = watch.look(start + Duration::from_secs(second), all);
            silent.map(|silent| (silent.place, silent.requests))
        };
        (0..).zip(looks).map(look).collect()
    }

    #[test]
    fn a_candidate_without_replies_is_silent_while_another_answers() {
        let found = looked(&[
            [progress(0, 0), progress(0, 0)],
            [progress(30, 0), progress(5, 5)],
            [progress(30, 0), progress(24, 24)],
            [progress(30, 0), progress(25, 25)],
        ]);
        assert_eq!(found, [None, None, None, Some((0, 30))]);
    }

    #[test]
    fn slow_replies_of_all_are_no_silence() {
        // Both take two looks for a reply; the second one has the turn before.
        let found = looked(&[
            [progress(0, 0), progress(30, 0)],
            [progress(30, 0), progress(30, 0)],
            [progress(30, 0), progress(30, 30)],
            [progress(30, 30), progress(30, 30)],
        ]);
        assert_eq!(found, [None; 4]);
    }

    /// The candidate in turn gets probes only, while old connections of the other one ask on.
    #[test]
    fn connections_without_requests_are_no_silence() {
        let found =
            looked(&[[progress(0, 0), progress(9, 9)], [progress(0, 0), progress(900, 900)]]);
        assert_eq!(found, [None; 2]);
    }

    #[test]
    fn a_candidate_that_is_out_is_not_looked_at() {
        assert_eq!(looked(&[[progress(30, 0), None], [None, progress(90, 90)]]), [None, None]);
    }
}
