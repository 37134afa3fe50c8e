//! A session of a replay: all servers get requests at once.
//!
//! ```text
//!   windows  epoll  ├ warm-up │ piece ┤                     latency, memory, failures: one server
//!            threads                   ├ warm-up │ piece ┤  at a time has the load
//!   blocks   all    ├ open what was open before │ piece a ┤├ open │ piece b ┤
//!                     each connection goes to every server, its copies up to 20 ms apart
//! ```
//!
//! A recording has think times of seconds, so servers cannot take turns in slices of some 30 ms.
//! Asked at once, all servers have the same connections in the same milliseconds, and each has its
//! own processor clock. So the servers are paired, whatever happens on the machine. This method
//! needs a load that leaves the servers' processor idle for half of the time. If all servers
//! together use more, the heaviest ones are measured in groups of their own. The lightest server
//! links the groups.
//!
//! The other servers change a server's figure by a few percent. So the last blocks have only the
//! servers that are close to the best.

use std::collections::BTreeMap;
use std::time::Duration;

use duality_load::{Observer, Relay, Report, Target, replay_on_all};

use super::clock::Clock;
use super::driver::After;
use super::length::PIECES;
use super::meter::Meter;
use super::recording::Replay;
use super::stage::Stage;
use super::window::Window;
use super::{Journal, cell_of, not_started, now};
use crate::failure::{Failure, Party};
use crate::measure::experiment::Experiment;
use crate::measure::no_server::NoServer;
use crate::measure::server::Server;
use crate::measure::store::OpenStore;
use crate::random::{SplitMix64, shuffle};
use crate::record::results;
use crate::record::{Block, CellKey, Disturbance, Measured, Outcome, Slice};

/// The share of their processors that servers may use together.
const MOST_USED: f64 = 0.5;

/// Servers within this distance of the best are measured again, without the others.
const CLOSE: f64 = 0.10;

/// The share of the blocks in which all servers take part.
const OF_ALL: f64 = 0.6;

/// The share of the planned blocks that may be measured again, in place of invalid ones.
const AGAIN: f64 = 0.4;

/// One piece may have more connections than another by this factor.
const MORE_OPEN: f64 = 1.1;

/// A server that answers a smaller share of its requests lacks something, and is left out.
const ANSWERED: f64 = 0.9;

/// Measures the missing parts of a session of the cells `keys`, until the `clock` stops. Returns
/// true if no part is missing at the end.
pub(super) fn run(
    experiment: &Experiment,
    replay: &Replay,
    keys: &[CellKey],
    journal: &mut Journal,
    clock: Clock<'_>,
    stage: &Stage,
) -> Result<bool, results::Error> {
    let done = results::done(&journal.records.cells);
    let (available, unavailable): (Vec<&CellKey>, Vec<&CellKey>) =
        keys.iter().partition(|key| experiment.why_unavailable(key).is_none());
    for key in unavailable.into_iter().filter(|key| !done.contains(key)) {
        let reason = experiment.why_unavailable(key).unwrap_or_default();
        journal.cell(cell_of(key, now(), Outcome::lacking(reason)))?;
    }
    let Some(&first) = available.first() else { return Ok(true) };
    let mut session = Session { experiment, replay, key: first, clock, alive: Vec::new() };
    for key in available {
        let started_at = now();
        let outcome = session.join(key, stage).unwrap_or_else(not_started);
        if clock.is_interrupted() {
            return Ok(false);
        }
        if !done.contains(key) {
            journal.cell(cell_of(key, started_at, outcome))?;
        }
    }
    session.alive.retain(Alive::answers);
    let groups = session.groups(journal);
    let mut complete = true;
    for (number, group) in groups.iter().enumerate() {
        complete &= session.blocks(number, group, journal, stage)?;
    }
    Ok(complete)
}

/// Servers that are alive, and get requests at once.
struct Session<'a> {
    experiment: &'a Experiment,
    replay: &'a Replay,
    /// A cell of the session: its repeat, and the number of users.
    key: &'a CellKey,
    clock: Clock<'a>,
    alive: Vec<Alive<'a>>,
}

/// A server, and its window.
struct Alive<'a> {
    key: &'a CellKey,
    window: Box<Measured>,
    /// The server comes before its store, because the server must end first.
    server: Box<dyn Server>,
    store: Option<OpenStore>,
}

impl Alive<'_> {
    /// Whether the server answers its requests.
    fn answers(&self) -> bool {
        let replayed = self.window.replayed.as_ref();
        replayed.is_none_or(|replayed| {
            self.window.requests as f64 >= ANSWERED * replayed.requests as f64
        })
    }
}

impl<'a> Session<'a> {
    /// Starts a server, and measures it alone in a window.
    fn join(&mut self, key: &'a CellKey, stage: &'a Stage) -> Result<Outcome, NoServer> {
        let mut store = stage.store(self.experiment)?;
        let mut server = stage.server(self.experiment, key, store.as_ref())?;
        let mut meter = stage.meter(self.experiment);
        let mut driver = stage.driver(self.experiment)?;
        let mut window = Window::of(&mut *server, &mut *meter);
        let report = driver.measure(key, After::End, &mut window, self.clock.interrupted());
        let outcome = window.outcome(report, None, self.experiment, &key.subject);
        if let Some(reason) = store.as_mut().and_then(OpenStore::problem) {
            return Ok(Outcome::Failed { reason });
        }
        if let Outcome::Measured(measured) = &outcome {
            self.alive.push(Alive { key, window: measured.clone(), server, store });
        }
        Ok(outcome)
    }

    /// The servers that get requests at once: all, or as many as leave their processors idle for
    /// half of the time. The first session decides, so that all sessions have the same groups.
    fn groups(&self, journal: &Journal) -> Vec<Vec<String>> {
        let design = &self.experiment.design;
        // All sessions use the same piece.
        let length = Duration::from_secs_f64(design.window_seconds);
        let piece = self.replay.piece(self.key.concurrency, length, design.seed, [0; 3]);
        let open = (MORE_OPEN * piece.open_at_once() as f64) as usize;
        let room = Relay::room_for_connections(open);
        let first = |subject: &str| {
            let mut cells =
                journal.records.cells.iter().filter(|cell| {
                    cell.subject == subject && cell.concurrency == self.key.concurrency
                });
            cells.find_map(|cell| match &cell.outcome {
                Outcome::Measured(measured) if cell.repeat == 0 => Some(measured.server_cpu_share),
                _ => None,
            })
        };
        let shares = self.alive.iter().map(|alive| {
            let subject = alive.key.subject.clone();
            let share = first(&subject).unwrap_or(alive.window.server_cpu_share);
            (subject, share)
        });
        let processors = design.server_cpus.len().max(1) as f64;
        groups(shares.collect(), MOST_USED * processors, room)
    }

    /// Measures the blocks of a group that are missing.
    fn blocks(
        &mut self,
        group: usize,
        members: &[String],
        journal: &mut Journal,
        stage: &Stage,
    ) -> Result<bool, results::Error> {
        let planned = self.experiment.design.blocks;
        let most = planned + (AGAIN * planned as f64).ceil() as usize;
        let of_all = (OF_ALL * planned as f64).ceil() as usize;
        let (mut number, mut sound) = self.measured(group, journal);
        while sound < planned && number < most {
            if self.clock.is_over() && (number > 0 || self.clock.is_interrupted()) {
                return Ok(false);
            }
            let mut asked = members.to_vec();
            if sound >= of_all {
                asked = self.close(asked, journal);
            }
            // A block with one subject compares nothing.
            if asked.len() < 2 {
                return Ok(true);
            }
            match self.block(group, number, &asked, stage) {
                Ok(block) => {
                    sound += usize::from(block.invalid.is_none());
                    number += 1;
                    journal.block(block)?;
                }
                Err(_) if self.clock.is_interrupted() => return Ok(false),
                Err(Lost { subject, problem }) => self.lose(&subject, &problem, journal)?,
            }
            let is_alive = |name: &String| self.alive.iter().any(|one| one.key.subject == *name);
            if members.iter().filter(|name| is_alive(name)).count() < 2 {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// The number of blocks of a group in this session, and the number of those that count.
    fn measured(&self, group: usize, journal: &Journal) -> (usize, usize) {
        let CellKey { repeat, concurrency, .. } = *self.key;
        let own = journal.records.blocks.iter().filter(|block| {
            (block.concurrency, block.session, block.group) == (concurrency, repeat, group)
        });
        let blocks: Vec<&Block> = own.collect();
        (blocks.len(), blocks.iter().filter(|block| block.invalid.is_none()).count())
    }

    /// The `members` that are close to the best so far, and the control with its subject.
    fn close(&self, members: Vec<String>, journal: &Journal) -> Vec<String> {
        let blocks = journal.records.blocks_at(self.key.concurrency);
        let behind = behind(&blocks);
        let design = &self.experiment.design;
        let is_close = |name: &String| behind.get(name).is_some_and(|one| *one <= CLOSE);
        let is_of_control = |name: &String| {
            design
                .control
                .as_ref()
                .is_some_and(|control| name == control || name == design.original(control))
        };
        // With the control alone, there is nothing to compare.
        if !members.iter().any(|name| is_close(name) && !is_of_control(name)) {
            return members;
        }
        let kept = members.iter().filter(|name| is_close(name) || is_of_control(name));
        kept.cloned().collect()
    }

    /// Sends some pieces to all `members` at once.
    fn block(
        &mut self,
        group: usize,
        number: usize,
        members: &[String],
        stage: &Stage,
    ) -> Result<Block, Lost> {
        let started_at = now();
        let CellKey { repeat, concurrency, .. } = *self.key;
        let place = (repeat << 20 | group << 16 | number) as u64;
        let mut order: Vec<usize> = (0..self.alive.len())
            .filter(|index| members.contains(&self.alive[*index].key.subject))
            .collect();
        shuffle(&mut order, &mut SplitMix64::new(self.experiment.design.seed ^ place));
        let mut meter = stage.meter(self.experiment);
        let (mut slices, mut invalid) = (Vec::new(), None);
        let mut disturbances = Vec::new();
        for piece in 0..PIECES {
            let salt = [concurrency as u64, place, 1 + piece as u64];
            let (own, why) = self.piece(&order, salt, &mut *meter, &mut disturbances)?;
            slices.extend(own);
            invalid = invalid.or(why);
            order.reverse();
        }
        Ok(Block {
            concurrency,
            session: repeat,
            group,
            number,
            started_at,
            slices,
            disturbance: joined(disturbances),
            invalid,
        })
    }

    /// Sends one piece to the servers of these places. Returns a slice for each server, and the
    /// reason if the slices do not count.
    fn piece(
        &mut self,
        order: &[usize],
        salt: [u64; 3],
        meter: &mut dyn Meter,
        disturbances: &mut Vec<Disturbance>,
    ) -> Result<(Vec<Slice>, Option<String>), Lost> {
        let Self { experiment, replay, key, clock, .. } = *self;
        let design = &experiment.design;
        let length = Duration::from_secs_f64(design.window_seconds);
        let piece = replay.piece(key.concurrency, length, design.seed, salt);
        let whole =
            |problem: Failure| Lost { subject: String::new(), problem: problem.to_string() };
        let targets =
            order.iter().map(|&index| experiment.target(self.alive[index].server.address()));
        let targets = targets.collect::<Result<Vec<Target>, Failure>>().map_err(whole)?;
        let first = order
            .first()
            .ok_or_else(|| whole(Failure::new(Party::Subject, "no server is left")))?;
        let address = self.alive[*first].server.address();
        let options = experiment.load(address, key).map_err(whole)?.replaying(piece);
        let mut edges = Edges {
            alive: &mut self.alive,
            order,
            meter,
            before: Vec::new(),
            used: Vec::new(),
            lost: None,
            found: Disturbance::default(),
        };
        let reports = replay_on_all(&options, &targets, &mut edges, clock.interrupted());
        let Edges { used, lost, found, .. } = edges;
        disturbances.push(found);
        if let Some(lost) = lost {
            return Err(lost);
        }
        let reports = reports.map_err(|error| whole(error.into()))?;
        let invalid = reports.iter().find_map(|report| report.invalid.values().next().cloned());
        let total: u64 = reports.iter().map(|report| report.requests).sum();
        let slices = order.iter().zip(&reports).zip(&used).map(|((&index, report), used)| {
            slice(&self.alive[index].key.subject, report, *used, total)
        });
        Ok((slices.collect(), invalid))
    }

    /// A server is gone: its cell has failed.
    fn lose(
        &mut self,
        subject: &str,
        problem: &str,
        journal: &mut Journal,
    ) -> Result<(), results::Error> {
        let found = self.alive.iter().position(|alive| alive.key.subject == subject);
        // Without a name, the whole block failed, and none of its servers is trusted any more.
        let places = found.map_or(0..self.alive.len(), |place| place..place + 1);
        for mut lost in self.alive.drain(places).collect::<Vec<_>>() {
            let reason = lost.store.as_mut().and_then(OpenStore::problem);
            // The load may have failed, and none of the servers.
            let reason = reason.unwrap_or_else(|| match subject {
                "" => problem.to_owned(),
                _ => lost.server.last_words(Some(&std::io::Error::other(problem))),
            });
            journal.cell(cell_of(lost.key, now(), Outcome::Failed { reason }))?;
        }
        Ok(())
    }
}

/// Reads the processor clocks of all servers as the window opens and closes.
struct Edges<'e, 'a> {
    alive: &'e mut Vec<Alive<'a>>,
    order: &'e [usize],
    meter: &'e mut dyn Meter,
    before: Vec<Duration>,
    used: Vec<Duration>,
    lost: Option<Lost>,
    found: Disturbance,
}

impl Edges<'_, '_> {
    fn read(&mut self) -> Vec<Duration> {
        let mut read = Vec::with_capacity(self.order.len());
        for &index in self.order {
            let Alive { key, server, .. } = &mut self.alive[index];
            let used = server.cpu().and_then(|living| server.cpu_with_ended_children(living));
            match used {
                Ok(used) => read.push(used),
                Err(error) => {
                    let subject = key.subject.clone();
                    self.lost.get_or_insert(Lost { subject, problem: error.to_string() });
                    read.push(Duration::ZERO);
                }
            }
        }
        read
    }

    /// The disturbance on the processors since the last look. All living servers count as the
    /// measurement's, because idle servers rest.
    fn look(&mut self) -> Disturbance {
        let Self { meter, alive, .. } = self;
        let used = &mut || -> std::io::Result<Duration> {
            alive.iter_mut().map(|alive| alive.server.cpu()).sum()
        };
        meter.look(used).unwrap_or_default()
    }
}

impl Observer for Edges<'_, '_> {
    fn window_opened(&mut self) {
        self.look();
        self.before = self.read();
    }

    fn window_closed(&mut self) {
        let after = self.read();
        let both = after.into_iter().zip(&self.before);
        self.used = both.map(|(after, before)| after.saturating_sub(*before)).collect();
        self.found = self.look();
    }
}

/// A server that is no longer there.
struct Lost {
    /// The name. Empty if the server is unknown.
    subject: String,
    problem: String,
}

/// A server's slice of a piece. The load generator's time is shared out by requests, of which all
/// servers together had `total`.
fn slice(subject: &str, report: &Report, used: Duration, total: u64) -> Slice {
    let seconds = report.window_seconds;
    let own = report.requests as f64 / total.max(1) as f64;
    Slice {
        subject: subject.to_owned(),
        requests: report.requests,
        server_cpu_us: 1e6 * used.as_secs_f64(),
        client_cpu_us: 1e6 * report.client_cpu_share * seconds * own,
        requests_per_second: report.requests_per_second,
        server_cpu_share: used.as_secs_f64() / seconds,
        client_cpu_share: report.client_cpu_share,
        client_wait_share: report.client_wait_share,
        connections_served: report.connections_served,
        failures: report.errors.values().sum(),
        errors: report.errors.clone(),
    }
}

/// Groups of at most `room` servers that together use no more than `most`, the lightest first. Each
/// further group has the lightest server of all to link it with the others.
fn groups(mut shares: Vec<(String, f64)>, most: f64, room: usize) -> Vec<Vec<String>> {
    shares.sort_by(|one, other| one.1.total_cmp(&other.1));
    let Some((link, of_link)) = shares.first().cloned() else { return Vec::new() };
    let mut groups = vec![vec![link.clone()]];
    let mut used = of_link;
    for (name, share) in shares.into_iter().skip(1) {
        let own = groups.last_mut().expect("there is one from the start");
        // A comparison needs at least one server beside the link.
        if own.len() > 1 && (used + share > most || own.len() >= room) {
            groups.push(vec![link.clone(), name]);
            used = of_link + share;
        } else {
            own.push(name);
            used += share;
        }
    }
    groups
}

/// How far each subject is behind the best in the blocks so far, as a share of the processor time
/// of a request.
fn behind(blocks: &[&Block]) -> BTreeMap<String, f64> {
    let mut logarithms: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for slice in blocks.iter().flat_map(|block| &block.slices).filter(|slice| slice.requests > 0) {
        let each = slice.server_cpu_us / slice.requests as f64;
        logarithms.entry(&slice.subject).or_default().push(each.ln());
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let means: Vec<(&str, f64)> =
        logarithms.iter().map(|(name, values)| (*name, mean(values))).collect();
    let best = means.iter().map(|(_, mean)| *mean).fold(f64::INFINITY, f64::min);
    means.into_iter().map(|(name, mean)| (name.to_owned(), (mean - best).exp_m1())).collect()
}

/// The disturbance of several pieces: the worst of each processor.
fn joined(all: Vec<Disturbance>) -> Disturbance {
    let mut all = all.into_iter();
    let Some(mut joined) = all.next() else { return Disturbance::default() };
    for next in all {
        joined.seconds += next.seconds;
        joined.quota = joined.quota.or(next.quota);
        for (own, other) in joined.processors.iter_mut().zip(next.processors) {
            own.stolen = own.stolen.max(other.stolen);
            own.strangers = own.strangers.max(other.strangers);
            own.soft_interrupts_waited =
                own.soft_interrupts_waited.max(other.soft_interrupts_waited);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_asked_at_once_as_far_as_half_of_a_processor_goes() {
        let shares = |all: &[(&str, f64)]| {
            all.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect::<Vec<_>>()
        };
        let groups_of = |all: &[(&str, f64)]| -> Vec<String> {
            groups(shares(all), 0.5, 4).iter().map(|group| group.concat()).collect()
        };
        assert_eq!(groups_of(&[("b", 0.1), ("a", 0.05), ("c", 0.2)]), ["abc"]);
        assert_eq!(
            groups_of(&[("a", 0.1), ("b", 0.2), ("c", 0.3), ("d", 0.6)]),
            ["ab", "ac", "ad"]
        );
        assert_eq!(groups_of(&[("a", 0.1), ("b", 0.1), ("c", 0.3), ("d", 0.6)]), ["abc", "ad"]);
        assert_eq!(groups_of(&[("a", 0.9), ("b", 0.9)]), ["ab"]);
        let many = ["a", "b", "c", "d", "e", "f"].map(|name| (name, 0.01));
        assert_eq!(groups_of(&many), ["abcd", "aef"], "descriptors are for four");
        assert!(groups(Vec::new(), 0.5, 4).is_empty());
    }

    #[test]
    fn who_is_close_is_known_by_the_blocks_so_far() {
        let slice = |subject: &str, cpu: f64| Slice {
            subject: subject.to_owned(),
            requests: 100,
            server_cpu_us: 100.0 * cpu,
            client_cpu_us: 0.0,
            requests_per_second: 100.0,
            server_cpu_share: 0.1,
            client_cpu_share: 0.1,
            client_wait_share: 0.0,
            connections_served: 1,
            failures: 0,
            errors: BTreeMap::new(),
        };
        let block = Block {
            concurrency: 1,
            session: 0,
            group: 0,
            number: 0,
            started_at: String::new(),
            slices: vec![slice("a", 10.0), slice("b", 10.5), slice("c", 30.0)],
            disturbance: Disturbance::default(),
            invalid: None,
        };
        let behind = behind(&[&block]);
        assert!(behind["a"] == 0.0 && (behind["b"] - 0.05).abs() < 1e-9 && behind["c"] > 1.9);
    }
}
