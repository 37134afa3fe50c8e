//! Finds a candidate that accepts connections and answers none, while others answer.
//!
//! A server counts a request when it has answered it, so its own figures hide requests that never
//! end. Slow replies alone prove nothing. So a candidate is silent only if another one has accepted
//! connections later, and answered those.

use std::time::{Duration, Instant};

/// A candidate is not judged by fewer connections.
const FEWEST: u64 = 20;

/// What a candidate has done up to a look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Requests that were answered. None, if the service defines no requests.
    pub(super) replies: u64,
    /// Connections that were taken from the queue.
    pub(super) accepted: u64,
    /// Connections that are open.
    pub(super) open: u64,
}

/// A silent candidate.
#[derive(Debug, PartialEq)]
pub(super) struct Silent {
    pub(super) place: usize,
    /// The connections that it has accepted since its last reply.
    pub(super) connections: u64,
    /// The time in which another candidate answered, and this one did not.
    pub(super) time: Duration,
}

/// The candidates since their last replies.
#[derive(Debug, Default)]
pub(super) struct Watch {
    quiet: Vec<Quiet>,
}

#[derive(Clone, Debug, Default)]
struct Quiet {
    /// What the candidate had done at its last reply.
    then: Progress,
    /// When it had accepted [`FEWEST`] connections since, with what all had done by then.
    full: Option<(Instant, Vec<Progress>)>,
}

impl Watch {
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
            let connections = progress.accepted.saturating_sub(quiet.then.accepted);
            if connections < FEWEST {
                continue;
            }
            let (since, then) = quiet.full.get_or_insert_with(|| (now, known()));
            // The connections that were open by then may have one reply each from before.
            let answers = all.iter().zip(then).any(|(one, then)| {
                one.is_some_and(|one| one.replies >= then.replies + then.open + FEWEST)
            });
            if answers {
                return Some(Silent { place, connections, time: now - *since });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(replies: u64, accepted: u64, open: u64) -> Option<Progress> {
        Some(Progress { replies, accepted, open })
    }

    /// Looks once a second; each look has what the two candidates have done.
    fn looked(looks: &[[Option<Progress>; 2]]) -> Vec<Option<(usize, u64)>> {
        let (start, mut watch) = (Instant::now(), Watch::default());
        let look = |(second, all): (u64, &[Option<Progress>; 2])| {
            let silent = watch.look(start + Duration::from_secs(second), all);
            silent.map(|silent| (silent.place, silent.connections))
        };
        (0..).zip(looks).map(look).collect()
    }

    #[test]
    fn who_answers_nothing_while_another_answers_is_silent() {
        let found = looked(&[
            [progress(0, 0, 0), progress(0, 0, 0)],
            [progress(0, 30, 30), progress(0, 0, 0)],
            [progress(0, 30, 30), progress(19, 19, 0)],
            [progress(0, 30, 30), progress(20, 20, 0)],
        ]);
        assert_eq!(found, [None, None, None, Some((0, 30))]);
    }

    #[test]
    fn slow_replies_of_all_are_no_silence() {
        // Both take two looks for a reply; the second one has the turn before.
        let found = looked(&[
            [progress(0, 0, 0), progress(0, 30, 30)],
            [progress(0, 30, 30), progress(0, 30, 30)],
            [progress(0, 30, 30), progress(30, 30, 0)],
            [progress(30, 30, 0), progress(30, 30, 0)],
        ]);
        assert_eq!(found, [None; 4]);
    }

    #[test]
    fn a_service_without_requests_is_never_silent() {
        let found = looked(&[
            [progress(0, 30, 30), progress(0, 30, 0)],
            [progress(0, 90, 90), progress(0, 90, 0)],
        ]);
        assert_eq!(found, [None; 2]);
    }

    #[test]
    fn a_candidate_that_is_out_is_not_looked_at() {
        assert_eq!(
            looked(&[[progress(0, 30, 30), None], [None, progress(90, 90, 0)]]),
            [None, None]
        );
    }
}
