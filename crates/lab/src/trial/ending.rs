//! The end of a trial: the best candidate goes on serving, and the others drain. At last all
//! candidates drain.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::Then;
use super::candidate::State;
use super::event::{Event, Finding, Reason, Verdict};
use super::run::{HANDSHAKE, LOOK, TICK, Trial};
use crate::failure::{Blame, Failure, Party};

impl Trial<'_> {
    /// Announces the finding. With [`Then::Serve`], the best candidate serves until the signal.
    pub(super) fn conclude(&mut self, finding: Finding) -> Result<(), Failure> {
        let stays = self.setup.then == Then::Serve && finding != Finding::Interrupted;
        self.look(true)?;
        let best = self.judgement.standings.first().map(|standing| standing.server);
        let best = best.filter(|place| self.candidates[*place].is_in());
        let serving = best.or(self.live().first().map(|(place, _)| *place));
        let verdict = Verdict {
            finding,
            serving: serving.filter(|_| stays).map(|place| self.name(place)),
            blocks: self.costs.len(),
            measured: self.measured(),
            standings: self.standings(),
            out: self.all_out(),
        };
        self.tell(Event::Decided(Box::new(verdict)));
        let Some(serving) = serving.filter(|_| stays) else { return Ok(()) };
        self.selected = Some(serving);
        self.direct()?;
        if best == Some(serving) {
            self.retire_those_behind()?;
        }
        for place in (0..self.candidates.len()).filter(|place| *place != serving) {
            self.retire(place, Reason::NotChosen)?;
        }
        while !self.interrupted.load(Ordering::Relaxed) {
            thread::sleep(TICK);
            self.tick();
            if self.looked.elapsed() >= LOOK {
                self.look(false)?;
            }
        }
        Ok(())
    }

    fn all_out(&self) -> Vec<String> {
        let places = 0..self.candidates.len();
        places
            .filter(|place| !self.candidates[*place].is_in())
            .map(|place| self.name(place))
            .collect()
    }

    /// Ends the trial: no new connection begins, and all existing ones are answered.
    pub(super) fn shut(&mut self) -> Result<(), Failure> {
        /// If a queue is not empty by then, an heir takes the queue.
        const MOST: Duration = Duration::from_secs(5);
        self.survivor = self.live().first().map(|(place, _)| *place);
        let closed = self.listeners.close_to_newcomers();
        let (begun, mut quiet) = (Instant::now(), Instant::now());
        while quiet.elapsed() < HANDSHAKE && begun.elapsed() < MOST {
            thread::sleep(TICK);
            if (0..self.candidates.len()).any(|place| self.listeners.has_connections(place)) {
                quiet = Instant::now();
            }
        }
        for candidate in &mut self.candidates {
            if !candidate.has_ended() {
                // Read the counters so far. A server that has ended reports nothing.
                let _ = candidate.look(false);
                candidate.drain();
            }
        }
        let is_over = |trial: &Self| {
            trial.candidates.iter().enumerate().all(|(place, candidate)| match candidate.state {
                State::Gone => !trial.listeners.has_connections(place),
                state => state == State::Abandoned,
            })
        };
        while !is_over(self) {
            thread::sleep(TICK);
            self.look(false)?;
        }
        self.tell(Event::Ended);
        closed.blame_at(Party::Machine, "new connections were not held back")
    }
}
