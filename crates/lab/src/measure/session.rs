//! A session: fresh servers, all alive at once. Each server has a window of its own, and then all
//! take part in blocks of slices.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duality_load::is_wrong_reply;

use super::clock::Clock;
use super::command::Load;
use super::driver::{After, Driver};
use super::meter::Meter;
use super::stage::Stage;
use super::throughout::Gathered;
use super::together;
use super::window::{Window, is_silent};
use super::{Journal, cell_of, lanes, not_started, now};
use crate::judge::verdict;
use crate::measure::experiment::Experiment;
use crate::measure::length::slice_length;
use crate::measure::no_server::NoServer;
use crate::measure::server::Server;
use crate::measure::store::OpenStore;
use crate::random::{SplitMix64, shuffle};
use crate::record::results;
use crate::record::{Block, CellKey, Disturbance, Outcome, Session as RecordedSession, Slice};

/// The share of the planned blocks that may be measured again, in place of disturbed ones.
const AGAIN: f64 = 0.3;

/// After so many slices without a reply, a server has a long slice to show that it answers. So a
/// server that stops for a moment goes on. A server goes on, too, if other programs took its
/// processor.
const SILENT: u32 = 4;

/// A server without a reply for this long has ended its work.
const HANGS: Duration = Duration::from_secs(1);

/// Why the window of a server that answered soon after it says nothing.
const LATE: &str = "no reply came within its window, and the next one within a second: the server \
                    stopped, or the machine was busy with other programs";

/// The word for a server that hangs.
const HANGING: &str = "it no longer answers";

/// Measures the missing parts of a session of the cells `keys`, until the `clock` stops. Returns
/// true if no part is missing at the end. Groups share the time.
pub(super) fn run(
    experiment: &Experiment,
    keys: &[CellKey],
    journal: &mut Journal,
    clock: Clock<'_>,
    stage: &Stage,
) -> Result<bool, results::Error> {
    if let Some(replay) = &experiment.replay {
        return together::run(experiment, replay, keys, journal, clock, stage);
    }
    let done = results::done(&journal.records.cells);
    let (available, unavailable): (Vec<&CellKey>, Vec<&CellKey>) =
        keys.iter().partition(|key| experiment.why_unavailable(key).is_none());
    for key in unavailable.into_iter().filter(|key| !done.contains(key)) {
        let reason = experiment.why_unavailable(key).unwrap_or_default();
        journal.cell(cell_of(key, now(), Outcome::lacking(reason)))?;
    }
    let Some(first) = available.first() else { return Ok(true) };
    let room = experiment.side_by_side(first.concurrency);
    let link = leader(journal, first.concurrency).unwrap_or_else(|| first.subject.clone());
    let mut missing: Vec<(usize, Vec<&CellKey>, usize)> = Vec::new();
    for (group, keys) in groups(&available, room, &link).into_iter().enumerate() {
        let measured = journal.records.blocks.iter().filter(|block| {
            (block.concurrency, block.session, block.group)
                == (first.concurrency, first.repeat, group)
        });
        let blocks = measured.count();
        // A race decides itself how many blocks a session has.
        let planned = if experiment.design.race { 1 } else { experiment.design.blocks };
        if blocks < planned || keys.iter().any(|key| !done.contains(key)) {
            missing.push((group, keys, blocks));
        }
    }
    let mut complete = true;
    for (place, (group, keys, blocks)) in missing.iter().enumerate() {
        if clock.is_over() {
            return Ok(false);
        }
        let rest: usize = missing[place..].iter().map(|(_, keys, _)| keys.len()).sum();
        let own = clock.share(keys.len() as f64, rest as f64);
        let mut session = Session::start(experiment, first, *group, clock.interrupted(), stage);
        complete &= session.windows(keys, journal)?
            && match experiment.design.race {
                true => session.race(*blocks, journal, own)?,
                false => session.blocks(*blocks, journal, own)?,
            };
        session.close(journal)?;
    }
    Ok(complete)
}

/// Groups of servers that can be alive at once: all servers, or some at a time beside the server
/// that links the groups.
fn groups<'a>(keys: &[&'a CellKey], room: usize, link: &str) -> Vec<Vec<&'a CellKey>> {
    if keys.len() <= room {
        return vec![keys.to_vec()];
    }
    let (links, others): (Vec<&CellKey>, Vec<&CellKey>) =
        keys.iter().partition(|key| key.subject == link);
    let group = |part: &[&'a CellKey]| links.iter().chain(part).copied().collect();
    others.chunks((room - links.len()).max(1)).map(group).collect()
}

/// The best subject so far. This subject links the groups.
fn leader(journal: &Journal, concurrency: usize) -> Option<String> {
    let here = journal.records.cells.iter().filter(|cell| cell.concurrency == concurrency);
    let measured = here.filter_map(|cell| match &cell.outcome {
        Outcome::Measured(figures) => Some((cell, figures.server_cpu_us_per_request)),
        _ => None,
    });
    let best = measured.min_by(|(_, one), (_, other)| one.total_cmp(other));
    best.map(|(cell, _)| cell.subject.clone())
}

/// Servers that are alive, and the load that each gets in turn.
struct Session<'a> {
    experiment: &'a Experiment,
    stage: &'a Stage,
    concurrency: usize,
    repeat: usize,
    group: usize,
    interrupted: &'a AtomicBool,
    meter: Box<dyn Meter>,
    random: SplitMix64,
    /// The load comes before the servers, because its connections must end first.
    driver: Option<Box<dyn Driver + 'a>>,
    joined: usize,
    alive: Vec<Alive<'a>>,
}

/// A server, and the number of its load.
struct Alive<'a> {
    key: &'a CellKey,
    load: usize,
    /// The server comes before its store, because the server must end first.
    server: Box<dyn Server>,
    store: Option<OpenStore>,
    gathered: Gathered,
    /// The number of slices without a reply since the last one with a reply.
    silent: u32,
}

impl<'a> Session<'a> {
    fn start(
        experiment: &'a Experiment,
        key: &CellKey,
        group: usize,
        interrupted: &'a AtomicBool,
        stage: &'a Stage,
    ) -> Self {
        let mut random = SplitMix64::new(experiment.design.seed);
        let salt = [key.concurrency, key.repeat, group];
        for part in salt {
            random = SplitMix64::new(random.next() ^ part as u64);
        }
        Self {
            experiment,
            stage,
            concurrency: key.concurrency,
            repeat: key.repeat,
            group,
            interrupted,
            meter: stage.meter(experiment),
            random,
            driver: None,
            joined: 0,
            alive: Vec::new(),
        }
    }

    /// Starts each server and measures it in a window of its own. Returns false when interrupted.
    fn windows(
        &mut self,
        keys: &[&'a CellKey],
        journal: &mut Journal,
    ) -> Result<bool, results::Error> {
        for &key in keys {
            let started_at = now();
            let outcome = self.join(key).unwrap_or_else(not_started);
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(false);
            }
            // A subject that is in all groups is measured in all. Missing blocks need new servers.
            let is_known = results::done(&journal.records.cells).contains(key);
            if !is_known {
                journal.cell(cell_of(key, started_at, outcome))?;
            }
        }
        Ok(true)
    }

    fn join(&mut self, key: &'a CellKey) -> Result<Outcome, NoServer> {
        let mut store = self.stage.store(self.experiment)?;
        let mut server = self.stage.server(self.experiment, key, store.as_ref())?;
        if let Some(load) = self.command() {
            let outcome = load.window(key, &mut *server, &mut *self.meter);
            if matches!(outcome, Outcome::Measured(_)) {
                let gathered = Gathered::default();
                self.alive.push(Alive { key, load: 0, server, store, gathered, silent: 0 });
            }
            return Ok(outcome);
        }
        let driver = match &mut self.driver {
            Some(driver) => driver,
            none => none.insert(self.stage.driver(self.experiment)?),
        };
        let mut window = Window::of(&mut *server, &mut *self.meter);
        let report = driver.measure(key, After::Stay, &mut window, self.interrupted);
        let load = self.joined;
        self.joined += usize::from(report.is_ok());
        let is_late = report.as_ref().is_ok_and(is_silent)
            && driver.slice(load, HANGS).is_ok_and(|slice| slice.requests > 0);
        let outcome = match is_late {
            false => window.outcome(report, driver.round_trip(), self.experiment, &key.subject),
            true => Outcome::silent(LATE),
        };
        if let Some(reason) = store.as_mut().and_then(OpenStore::problem) {
            return Ok(Outcome::Failed { reason });
        }
        if is_late || matches!(outcome, Outcome::Measured(_)) {
            let gathered = Gathered::default();
            self.alive.push(Alive { key, load, server, store, gathered, silent: 0 });
        }
        Ok(outcome)
    }

    /// Measures the blocks that are missing beyond `done`, and measures disturbed blocks again.
    /// Returns false if the time is up before the end. However slow the machine is, there is one
    /// block.
    fn blocks(
        &mut self,
        done: usize,
        journal: &mut Journal,
        clock: Clock<'_>,
    ) -> Result<bool, results::Error> {
        let planned = self.experiment.design.blocks;
        let most = planned + (AGAIN * planned as f64).ceil() as usize;
        let mut number = done;
        // A block with one subject compares nothing.
        while self.alive.len() > 1 && number < most {
            if number >= planned && self.sound(journal) >= planned {
                break;
            }
            // One block takes little time. Without any block the session would be useless.
            if clock.is_interrupted() || clock.is_over() && number > done {
                return Ok(number >= planned);
            }
            let everyone = (0..self.alive.len()).collect();
            match self.next_block(number, everyone, journal)? {
                Ended::Block => number += 1,
                Ended::Lost => {}
                Ended::Interrupted => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Measures blocks of the subjects that go on in the race, after the `done` ones. This ends
    /// when the session has enough of them, or the time is up. Returns false if there is no block
    /// at the end. Subjects that are out stay alive, and rest.
    fn race(
        &mut self,
        done: usize,
        journal: &mut Journal,
        clock: Clock<'_>,
    ) -> Result<bool, results::Error> {
        let mut lane = lanes::lane(journal, self.concurrency);
        let mut number = done;
        while number < lanes::most_blocks(&lane) && !(clock.is_over() && number > done) {
            let goes_on = |index: &usize| lane.goes_on.contains(&self.alive[*index].key.subject);
            let order: Vec<usize> = (0..self.alive.len()).filter(goes_on).collect();
            // A block with one subject compares nothing.
            if order.len() < 2 {
                break;
            }
            match self.next_block(number, order, journal)? {
                Ended::Block => number += 1,
                Ended::Lost => lane = lanes::lane(journal, self.concurrency),
                Ended::Interrupted => return Ok(false),
            }
            if lanes::looks_now(journal, self.concurrency) {
                let now = lanes::lane(journal, self.concurrency);
                lanes::tell(&mut journal.display, &lane, &now);
                lane = now;
            }
        }
        Ok(number > 0 || self.alive.len() < 2)
    }

    /// Measures a block of the servers of `order`, in any order. A server that is lost in it leaves
    /// the session.
    fn next_block(
        &mut self,
        number: usize,
        order: Vec<usize>,
        journal: &mut Journal,
    ) -> Result<Ended, results::Error> {
        match self.block(number, order) {
            Ok(block) => {
                journal.block(block)?;
                Ok(Ended::Block)
            }
            Err(_) if self.interrupted.load(Ordering::Relaxed) => Ok(Ended::Interrupted),
            Err(Lost { index, problem }) => {
                let mut lost = self.alive.remove(index);
                let reason = lost.store.as_mut().and_then(OpenStore::problem);
                let reason = reason.unwrap_or_else(|| lost.server.last_words(Some(&problem)));
                journal.cell(cell_of(lost.key, now(), Outcome::Failed { reason }))?;
                Ok(Ended::Lost)
            }
        }
    }

    /// Adds the figures of the whole session to the cells of the servers that are still alive.
    fn close(&mut self, journal: &mut Journal) -> Result<(), results::Error> {
        for alive in &mut self.alive {
            if alive.silent > 0
                && let Some(driver) = &mut self.driver
                && hangs(&mut **driver, alive)
            {
                let reason = alive.server.last_words(Some(&std::io::Error::other(HANGING)));
                journal.cell(cell_of(alive.key, now(), Outcome::Failed { reason }))?;
                continue;
            }
            let Some(throughout) = alive.gathered.summary() else { continue };
            let CellKey { repeat, subject, concurrency } = alive.key.clone();
            // A server that has ended meanwhile has the memory of its window.
            let server_peak_bytes =
                alive.server.counters(true).map_or(0, |counters| counters.peak_bytes);
            let session =
                RecordedSession { subject, concurrency, repeat, server_peak_bytes, throughout };
            journal.session(&session)?;
        }
        Ok(())
    }

    /// The number of blocks of this group and session that count.
    fn sound(&self, journal: &Journal) -> usize {
        let own = (self.concurrency, self.repeat, self.group);
        let blocks: Vec<&Block> = journal
            .records
            .blocks
            .iter()
            .filter(|block| (block.concurrency, block.session, block.group) == own)
            .collect();
        verdict::sound(&journal.heading, &blocks)
    }

    fn block(&mut self, number: usize, mut order: Vec<usize>) -> Result<Block, Lost> {
        let started_at = now();
        shuffle(&mut order, &mut self.random);
        self.look()?;
        let mut slices = Vec::with_capacity(2 * order.len());
        for &index in order.iter().chain(order.iter().rev()) {
            slices.push(self.slice(index).map_err(|problem| Lost { index, problem })?);
        }
        let disturbance = self.look()?;
        for (index, alive) in self.alive.iter_mut().enumerate() {
            let bytes = alive.server.memory().map_err(|problem| Lost { index, problem })?;
            alive.gathered.remember(bytes);
        }
        Ok(Block {
            invalid: None,
            concurrency: self.concurrency,
            session: self.repeat,
            group: self.group,
            number,
            started_at,
            slices,
            disturbance,
        })
    }

    /// The disturbance on the processors since the last look.
    fn look(&mut self) -> Result<Disturbance, Lost> {
        let Self { meter, alive, .. } = self;
        let mut index = 0;
        let looked = meter.look(&mut || {
            let mut servers = Duration::ZERO;
            for (place, alive) in alive.iter_mut().enumerate() {
                index = place;
                servers += alive.server.cpu()?;
            }
            Ok(servers)
        });
        looked.map_err(|problem| Lost { index, problem })
    }

    /// The load command, if there is one in place of the load generator.
    fn command(&self) -> Option<Load<'a>> {
        let Self { experiment, interrupted, .. } = *self;
        let words = experiment.design.load_command.as_deref()?;
        Some(Load { words, experiment, interrupted })
    }

    fn slice(&mut self, index: usize) -> std::io::Result<Slice> {
        let command = self.command();
        let alive = &mut self.alive[index];
        if let Some(load) = command {
            return load.slice(alive.key, &mut *alive.server);
        }
        let driver = self.driver.as_mut().expect("who is alive has joined it");
        let length = slice_length(self.concurrency, driver.round_trip());
        let before = alive.server.settled()?;
        let driven = driver.slice(alive.load, length).map_err(std::io::Error::other)?;
        let used = alive.server.settled()?.saturating_sub(before);
        alive.gathered.add(&driven);
        let errors: BTreeMap<String, u64> = driven.errors;
        let failures = errors.values().sum();
        // A server that gives wrong answers stays. Its wrong replies are recorded.
        let answers = driven.requests > 0 || errors.keys().any(|kind| is_wrong_reply(kind));
        // The histograms hold replies of requests that an earlier slice made, too.
        alive.silent = if driven.histograms.is_empty() { alive.silent + 1 } else { 0 };
        let is_suspicious = alive.silent > 0 && alive.silent.is_multiple_of(SILENT);
        if !answers && (failures > 0 || is_suspicious && hangs(&mut **driver, alive)) {
            return Err(std::io::Error::other(HANGING));
        }
        let elapsed = driven.elapsed.as_secs_f64();
        let microseconds = |time: Duration| 1e6 * time.as_secs_f64();
        Ok(Slice {
            subject: alive.key.subject.clone(),
            requests: driven.requests,
            server_cpu_us: microseconds(used),
            client_cpu_us: microseconds(driven.cpu),
            requests_per_second: driven.requests_per_second,
            server_cpu_share: used.as_secs_f64() / elapsed,
            client_cpu_share: driven.cpu.as_secs_f64() / elapsed / driver.width(alive.load) as f64,
            client_wait_share: driven.waited.as_secs_f64() / elapsed,
            connections_served: driven.connections_served,
            failures,
            errors,
        })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Connections end before servers do. Otherwise a server would wait for its clients.
        self.driver = None;
    }
}

/// Whether a silent server gives no reply in a long slice either.
fn hangs(driver: &mut dyn Driver, alive: &Alive<'_>) -> bool {
    let looked = driver.slice(alive.load, HANGS);
    looked.is_ok_and(|slice| slice.requests == 0 && slice.histograms.is_empty())
}

/// How an attempt at a block ended.
enum Ended {
    Block,
    /// A server was lost, and there is no block.
    Lost,
    Interrupted,
}

/// A server that is no longer there.
struct Lost {
    index: usize,
    problem: std::io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<CellKey> {
        let key = |name: &&str| CellKey { repeat: 0, subject: (*name).into(), concurrency: 10 };
        names.iter().map(key).collect()
    }

    #[test]
    fn who_cannot_be_alive_at_once_is_in_groups_with_one_that_links_them() {
        let keys = keys(&["a", "b", "c", "d", "e"]);
        let all: Vec<&CellKey> = keys.iter().collect();
        let names = |room: usize| -> Vec<String> {
            let groups = groups(&all, room, "c");
            groups
                .iter()
                .map(|group| group.iter().map(|key| key.subject.as_str()).collect())
                .collect()
        };
        assert_eq!(names(5), ["abcde"]);
        assert_eq!(names(3), ["cab", "cde"]);
        assert_eq!(names(2), ["ca", "cb", "cd", "ce"]);
    }
}
