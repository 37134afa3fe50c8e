//! The course of a trial: turns, looks, limits, and the verdict. `ending.rs` has its end.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use duality_runtime::net::accept_queue_length;

use super::candidate::{Candidate, State};
use super::event::{
    Block, Dropped, Event, Finding, Heading, Measured, Reason, Standing, Told, VERSION,
};
use super::plan::{self, Turn};
use super::silence::{self, Silent};
use super::totals::Totals;
use super::{Audience, By, Glance, Listeners, Setup};
use crate::failure::{Failure, Party};
use crate::judge::sequential::{self, Decision, Judgement};
use crate::measure::{machine, now};
use crate::random::SplitMix64;

/// The longest sleep of the trial: a signal is noticed after it.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// The interval between two looks at the candidates.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// After so many servers, what is left in the queue of a candidate gets no answer.
const MOST_HEIRS: u32 = 3;
/// The interval between two reads of memory, which take long if there are many processes.
const MEMORY_LOOK: Duration = Duration::from_secs(2);
/// A handshake that began in a turn ends within this time after the turn.
pub(super) const HANDSHAKE: Duration = Duration::from_millis(500);
/// A block goes on until each candidate has answered this many requests.
const FEWEST: u64 = 20;
/// The least time between two starts of a server that dies.
const PAUSE: Duration = Duration::from_secs(1);

/// A trial under way.
pub(super) struct Trial<'t> {
    pub(super) setup: &'t Setup,
    pub(super) listeners: &'t dyn Listeners,
    pub(super) audience: &'t mut dyn Audience,
    pub(super) interrupted: &'t AtomicBool,
    pub(super) begun: Instant,
    pub(super) random: SplitMix64,
    pub(super) candidates: Vec<Candidate>,
    /// The candidate that gets all new connections now. `None` if each connection is drawn.
    pub(super) selected: Option<usize>,
    /// The costs of the blocks that count.
    pub(super) costs: Vec<Vec<Option<f64>>>,
    pub(super) judgement: Judgement,
    /// The counts of each candidate at its first look.
    pub(super) origin: Vec<Totals>,
    /// Whether a candidate has died in this block.
    pub(super) is_disturbed: bool,
    /// Whether the event that the last candidate stays has been sent.
    pub(super) is_kept: bool,
    pub(super) looked: Instant,
    pub(super) looked_at_memory: Option<Instant>,
    pub(super) restarted: Option<Instant>,
    pub(super) silence: silence::Watch,
    /// A candidate that was in until the trial ended.
    pub(super) survivor: Option<usize>,
}

/// Tries the candidates, until the verdict, the end of the budget, or a signal. With
/// [`Then::Serve`](super::Then::Serve), the best goes on serving until `interrupted`. At the
/// return, all servers have drained.
///
/// # Errors
///
/// One line: a candidate does not start, or the kernel refuses a call.
pub fn run(
    setup: &Setup,
    listeners: &dyn Listeners,
    audience: &mut dyn Audience,
    interrupted: &AtomicBool,
) -> Result<(), Failure> {
    let candidates = start_all(setup, listeners)?;
    let mut trial = Trial {
        setup,
        listeners,
        audience,
        interrupted,
        begun: Instant::now(),
        random: SplitMix64::new(setup.seed),
        origin: candidates.iter().map(Candidate::totals).collect(),
        candidates,
        selected: None,
        costs: Vec::new(),
        judgement: Judgement { standings: Vec::new(), decision: None },
        is_disturbed: false,
        is_kept: false,
        looked: Instant::now(),
        looked_at_memory: None,
        silence: silence::Watch::new(setup.limits.slo),
        survivor: None,
        restarted: None,
    };
    trial.tell(Event::Began(Box::new(trial.heading())));
    // A failed trial also drains its servers.
    let served = trial.compare().and_then(|finding| trial.conclude(finding));
    let closed = trial.shut();
    served.and(closed)
}

fn start_all(setup: &Setup, listeners: &dyn Listeners) -> Result<Vec<Candidate>, Failure> {
    let start = |(place, about): (usize, &super::Candidate)| {
        Candidate::start(setup, about, listeners.listener(place))
            .map_err(|failure| failure.at(&about.name))
    };
    setup.candidates.iter().enumerate().map(start).collect()
}

impl Trial<'_> {
    /// Runs block after block.
    fn compare(&mut self) -> Result<Finding, Failure> {
        let (mut number, mut order) = (0, Vec::new());
        let (mut before, mut since) = (self.totals(), Instant::now());
        loop {
            let live = self.live();
            for turn in self.turns(&live) {
                if let Some(finding) = self.turn(turn, &mut order)? {
                    return Ok(finding);
                }
            }
            self.look(true)?;
            let seconds = since.elapsed().as_secs_f64();
            let measured = self.measured_since(&before);
            let is_long_enough = measured.values().all(|one| one.requests >= FEWEST);
            if !is_long_enough && !self.is_disturbed {
                continue;
            }
            let dropped = match (number, self.is_disturbed) {
                (0, _) => Some(Dropped::WarmUp),
                (_, true) => Some(Dropped::Disturbed),
                (_, false) => None,
            };
            let order = std::mem::take(&mut order);
            let decision = self.end_block(number, dropped, seconds, order, measured)?;
            if let Some(finding) = decision {
                return Ok(finding);
            }
            (before, since, number) = (self.totals(), Instant::now(), number + 1);
            self.is_disturbed = false;
        }
    }

    /// The turns of a block. If each connection is drawn, there is one turn.
    fn turns(&mut self, live: &[(usize, f64)]) -> Vec<Option<Turn>> {
        let turns = plan::block(live, self.setup.slot, &mut self.random);
        match self.setup.by {
            By::Slot => turns.into_iter().map(Some).collect(),
            By::Connection => vec![None],
        }
    }

    /// Has a candidate accept for its turn, or has connections drawn for as long as a block takes.
    /// Returns whether the comparison ends meanwhile.
    fn turn(
        &mut self,
        turn: Option<Turn>,
        order: &mut Vec<String>,
    ) -> Result<Option<Finding>, Failure> {
        let length = match turn {
            Some(turn) if !self.candidates[turn.candidate].is_in() => return Ok(None),
            Some(turn) => {
                order.push(self.name(turn.candidate));
                self.selected = Some(turn.candidate);
                turn.length
            }
            None => self.setup.slot * 2 * self.live().len() as u32,
        };
        self.direct()?;
        let until = Instant::now() + length;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(left.min(TICK));
            self.tick();
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(Some(Finding::Interrupted));
            }
            if self.begun.elapsed() >= self.setup.budget {
                return Ok(Some(Finding::OutOfTime));
            }
            if self.looked.elapsed() >= LOOK {
                self.look(false)?;
            }
            if let [(only, _)] = self.live()[..] {
                return Ok(Some(Finding::LastOne { candidate: self.name(only) }));
            }
            if turn.is_some_and(|turn| !self.candidates[turn.candidate].is_in()) {
                return Ok(None);
            }
        }
    }

    /// Judges the blocks so far, and takes out candidates that are behind. Returns the finding, if
    /// there is one.
    fn end_block(
        &mut self,
        number: usize,
        dropped: Option<Dropped>,
        seconds: f64,
        order: Vec<String>,
        measured: BTreeMap<String, Measured>,
    ) -> Result<Option<Finding>, Failure> {
        let servers: Vec<usize> = self.live().iter().map(|(place, _)| *place).collect();
        if dropped.is_none() {
            let cost = |candidate: &Candidate| measured.get(&candidate.about.name)?.cost();
            self.costs.push(self.candidates.iter().map(cost).collect());
        }
        self.judgement =
            sequential::judge(&self.costs, &servers, self.candidates.len(), &self.setup.rule);
        let standings = self.standings();
        self.tell(Event::Block(Block { number, dropped, seconds, order, measured, standings }));
        if let [only] = servers[..] {
            return Ok(Some(Finding::LastOne { candidate: self.name(only) }));
        }
        let finding = match self.judgement.decision.clone() {
            Some(Decision::Winner(place)) => Finding::Winner { candidate: self.name(place) },
            Some(Decision::Level(places)) => Finding::Level {
                candidates: places.into_iter().map(|place| self.name(place)).collect(),
            },
            None => {
                self.retire_those_behind()?;
                return Ok(None);
            }
        };
        Ok(Some(finding))
    }

    pub(super) fn retire_those_behind(&mut self) -> Result<(), Failure> {
        let standings = self.judgement.standings.clone();
        let Some(best) = standings.first() else { return Ok(()) };
        for behind in standings.iter().filter(|standing| standing.is_behind()) {
            let Some(interval) = behind.interval else { continue };
            self.retire(behind.server, Reason::Behind { best: self.name(best.server), interval })?;
        }
        Ok(())
    }

    /// Watches the queues of the candidates.
    pub(super) fn tick(&mut self) {
        for place in self.live().into_iter().map(|(place, _)| place) {
            let has_connections = self.listeners.has_connections(place);
            let length = || accept_queue_length(self.listeners.listener(place)).map(u64::from);
            self.candidates[place].tick(has_connections, length);
        }
    }

    /// Looks at all candidates: reads their counters, checks limits and deaths, and advances the
    /// candidates that are out.
    pub(super) fn look(&mut self, with_memory: bool) -> Result<(), Failure> {
        let limited = self.setup.limits.max_memory.is_some();
        let is_due = self.looked_at_memory.is_none_or(|then| then.elapsed() >= MEMORY_LOOK);
        let with_memory = (with_memory || limited) && is_due;
        for place in 0..self.candidates.len() {
            match self.candidates[place].state {
                State::In => self.look_at(place, with_memory)?,
                State::Leaving(_) => {
                    if let Err(how) = self.candidates[place].look(false) {
                        self.candidates[place].state = State::Gone;
                        let line = format!("the server {how} before it had drained");
                        self.tell(Event::Said { candidate: self.name(place), line });
                    }
                }
                State::Draining | State::Abandoned => {}
                State::Gone => self.find_heir(place),
            }
            if self.candidates[place].step_out(self.listeners, place, HANDSHAKE) {
                self.tell(Event::Drained { candidate: self.name(place) });
            }
            for line in self.candidates[place].news() {
                self.tell(Event::Said { candidate: self.name(place), line });
            }
        }
        let progress: Vec<_> = self
            .candidates
            .iter()
            .map(|one| one.is_in().then(|| one.totals().progress()))
            .collect();
        if let Some(Silent { place, requests, time }) = self.silence.look(Instant::now(), &progress)
        {
            self.retire(place, Reason::Silent { requests, seconds: time.as_secs_f64() })?;
        }
        if with_memory {
            self.looked_at_memory = Some(Instant::now());
        }
        self.looked = Instant::now();
        let glance = Glance {
            standings: self.standings(),
            measured: self.measured(),
            selected: self.selected.map(|place| self.name(place)),
        };
        self.audience.glance(&glance);
        Ok(())
    }

    fn look_at(&mut self, place: usize, with_memory: bool) -> Result<(), Failure> {
        let before = self.candidates[place].totals();
        if let Err(how) = self.candidates[place].look(with_memory) {
            return self.restart(place, how.to_string());
        }
        let length = || accept_queue_length(self.listeners.listener(place)).map(u64::from);
        match self.candidates[place].beyond(&before, length) {
            Some(reason) => self.retire(place, reason),
            None => Ok(()),
        }
    }

    /// Restarts a server that has died, once. The last candidate is restarted without limit.
    fn restart(&mut self, place: usize, how: String) -> Result<(), Failure> {
        self.is_disturbed = true;
        self.candidates[place].deaths += 1;
        let is_last = self.live().len() == 1;
        if self.candidates[place].deaths > 1 && !is_last {
            self.candidates[place].state = State::Gone;
            let how = format!("{how}, for the second time");
            return self.announce_out(place, Reason::Died { how });
        }
        if let Some(then) = self.restarted
            && self.candidates[place].deaths > 1
        {
            thread::sleep(PAUSE.saturating_sub(then.elapsed()));
        }
        self.restarted = Some(Instant::now());
        // The connections in the candidate's queue wait, and new connections go elsewhere
        // meanwhile.
        if self.selected == Some(place) && !is_last {
            self.selected = self.live().into_iter().map(|(one, _)| one).find(|one| *one != place);
            self.direct()?;
        }
        let architecture = self.candidates[place].about.architecture.clone();
        let listener = self.listeners.listener(place);
        match self.candidates[place].serve(self.setup, &architecture, listener) {
            Ok(()) => {
                self.tell(Event::Restarted { candidate: self.name(place), how });
                Ok(())
            }
            Err(failure) if is_last => {
                let place = self.name(place);
                Err(failure.at(format_args!("{place}: {how}, then")))
            }
            Err(reason) => {
                self.candidates[place].state = State::Gone;
                let how = format!("{how}, and does not start again: {reason}");
                self.announce_out(place, Reason::Died { how })
            }
        }
    }

    /// Gives a candidate no more connections, and lets it drain. The last candidate stays.
    pub(super) fn retire(&mut self, place: usize, reason: Reason) -> Result<(), Failure> {
        if !self.candidates[place].is_in() {
            return Ok(());
        }
        if self.live().len() == 1 {
            if !std::mem::replace(&mut self.is_kept, true) {
                self.tell(Event::Kept { candidate: self.name(place), reason });
            }
            return Ok(());
        }
        self.candidates[place].state = State::Leaving(Instant::now());
        self.announce_out(place, reason)
    }

    /// Directs connections away from a candidate that is out, and announces it.
    fn announce_out(&mut self, place: usize, reason: Reason) -> Result<(), Failure> {
        if self.selected == Some(place) {
            self.selected = self.live().first().map(|(other, _)| *other);
        }
        self.direct()?;
        self.tell(Event::Out { candidate: self.name(place), reason });
        Ok(())
    }

    /// Starts a server for the connections left in the queue of a candidate that has ended.
    fn find_heir(&mut self, place: usize) {
        if !self.listeners.has_connections(place) {
            return;
        }
        // The candidate's own architecture may be the cause of its death.
        let other = self.live().first().map(|(other, _)| *other).or(self.survivor);
        let other = other.unwrap_or(place);
        let architecture = self.candidates[other].about.architecture.clone();
        let listener = self.listeners.listener(place);
        let served = match self.candidates[place].heirs {
            MOST_HEIRS => {
                let problem = format!("{MOST_HEIRS} servers did not empty it");
                Err(Failure::new(Party::Subject, problem))
            }
            _ => self.candidates[place].serve(self.setup, &architecture, listener),
        };
        match served {
            Ok(()) => {
                self.candidates[place].heirs += 1;
                self.candidates[place].state = State::Leaving(Instant::now());
                self.tell(Event::Heir { candidate: self.name(place), architecture });
            }
            Err(reason) => {
                self.candidates[place].state = State::Abandoned;
                let line = format!("what is left in its queue gets no answer: {reason}");
                self.tell(Event::Said { candidate: self.name(place), line });
            }
        }
    }

    /// Tells the kernel which candidate has the turn.
    pub(super) fn direct(&self) -> Result<(), Failure> {
        let failed =
            |error: io::Error| Failure::new(Party::Machine, error).at("cannot direct connections");
        match self.selected {
            Some(place) => self.listeners.choose(place).map_err(failed),
            None => {
                let weights = plan::weights(&self.live(), self.candidates.len());
                self.listeners.draw(&weights).map_err(failed)
            }
        }
    }

    /// The candidates that get connections, with their shares.
    pub(super) fn live(&self) -> Vec<(usize, f64)> {
        let all = self.candidates.iter().enumerate().filter(|(_, candidate)| candidate.is_in());
        all.map(|(place, candidate)| (place, candidate.about.share)).collect()
    }

    pub(super) fn name(&self, place: usize) -> String {
        self.candidates[place].about.name.clone()
    }

    fn totals(&self) -> Vec<Totals> {
        self.candidates.iter().map(Candidate::totals).collect()
    }

    /// The measurements since `before`, of each candidate that is in.
    fn measured_since(&self, before: &[Totals]) -> BTreeMap<String, Measured> {
        let live = self.candidates.iter().zip(before).filter(|(candidate, _)| candidate.is_in());
        live.map(|(candidate, before)| {
            (candidate.about.name.clone(), candidate.totals().since(before))
        })
        .collect()
    }

    /// The measurements of each candidate in the whole trial.
    pub(super) fn measured(&self) -> BTreeMap<String, Measured> {
        let all = self.candidates.iter().zip(&self.origin);
        all.map(|(candidate, origin)| {
            (candidate.about.name.clone(), candidate.totals().since(origin))
        })
        .collect()
    }

    pub(super) fn standings(&self) -> Vec<Standing> {
        let standing = |standing: &sequential::Standing| Standing {
            candidate: self.name(standing.server),
            excess: standing.excess,
            interval: standing.interval,
        };
        self.judgement.standings.iter().map(standing).collect()
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.audience.hear(&Told { at_s: self.begun.elapsed().as_secs_f64(), event });
    }

    fn heading(&self) -> Heading {
        let Setup {
            service, candidates, server_arguments, by, slot, budget, then, rule, seed, ..
        } = self.setup;
        Heading {
            version: VERSION,
            duality: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: now(),
            service: service.clone(),
            address: self.listeners.address().to_string(),
            candidates: candidates.clone(),
            server_arguments: server_arguments.clone(),
            by: *by,
            slot_s: slot.as_secs_f64(),
            budget_s: budget.as_secs_f64(),
            then: *then,
            promise: rule.promise,
            margin: rule.margin,
            seed: *seed,
            machine: machine::describe(),
        }
    }
}
