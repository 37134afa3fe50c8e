//! Made-up experiments of blocks, with noise that drifts as it does on a shared machine.

#![allow(dead_code, reason = "each file of tests uses some of it")]

use std::collections::{BTreeMap, BTreeSet};

use duality_lab::judge::summary::Summary;
use duality_lab::judge::verdict::{Question, Verdict, verdicts};
use duality_lab::random::SplitMix64;
use duality_lab::record::{
    Block, Cell, Design, Disturbance, Heading, Outcome, Processor, Records, Slice,
};
use duality_lab::tell::recommendation::{Recommendation, recommend};

use crate::fixtures;

/// The properties of a subject at a number of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Processor time for a request, in microseconds.
    pub(crate) server_us: f64,
    pub(crate) client_us: f64,
    /// Replies a second.
    pub(crate) rate: f64,
}

/// A server that takes this time for a request, beside a client that takes 10 µs, with both nearly
/// busy.
pub(crate) fn busy(server_us: f64) -> Shape {
    Shape { server_us, client_us: 10.0, rate: 0.95e6 / server_us.max(10.0) }
}

/// An experiment in the making.
pub(crate) struct Trial {
    pub(crate) heading: Heading,
    pub(crate) records: Records,
    random: SplitMix64,
}

/// Three sessions of seven blocks.
pub(crate) fn trial(
    names: &[&str],
    counts: &[usize],
    shape: impl Fn(&str, usize) -> Shape,
) -> Trial {
    Trial::new(names, counts, 3, 7, 0.05, 1, shape)
}

impl Trial {
    pub(crate) fn new(
        names: &[&str],
        counts: &[usize],
        sessions: usize,
        blocks: usize,
        noise: f64,
        seed: u64,
        shape: impl Fn(&str, usize) -> Shape,
    ) -> Self {
        let mut heading = fixtures::heading(names, counts, sessions);
        heading.design.blocks = blocks;
        let mut trial =
            Self { heading, records: Records::default(), random: SplitMix64::new(seed) };
        for &count in counts {
            for session in 0..sessions {
                trial.session(names, count, session, noise, &shape);
            }
        }
        trial
    }

    /// Measures an architecture once more, as a control that is so many times as slow.
    pub(crate) fn with_control(mut self, original: &str, times: f64) -> Self {
        let again = Design::again(original);
        for block in &mut self.records.blocks {
            let own = block.slices.iter().filter(|slice| slice.subject == original).cloned();
            let copies: Vec<Slice> = own
                .map(|slice| {
                    let noise = 0.05 * self.random.normal();
                    let subject = again.clone();
                    let server_cpu_us = slice.server_cpu_us * times * noise.exp();
                    Slice { subject, server_cpu_us, ..slice }
                })
                .collect();
            block.slices.extend(copies);
        }
        let own = self.records.cells.iter().filter(|cell| cell.subject == original).cloned();
        let copies: Vec<Cell> = own.map(|cell| Cell { subject: again.clone(), ..cell }).collect();
        self.records.cells.extend(copies);
        self.heading.design.control = Some(again);
        self
    }

    fn session(
        &mut self,
        names: &[&str],
        count: usize,
        session: usize,
        noise: f64,
        shape: &impl Fn(&str, usize) -> Shape,
    ) {
        for name in names {
            let Shape { server_us, rate, .. } = shape(name, count);
            let memory = if *name == "epoll" { 4.0 } else { 3.0 };
            let figures = fixtures::measured(count, rate, server_us, memory);
            let outcome = Outcome::Measured(Box::new(figures));
            self.records.cells.push(fixtures::cell(name, count, session, outcome));
        }
        let mut drift = 0.0;
        for number in 0..self.heading.design.blocks {
            drift += 2.0 * noise * self.random.normal();
            let mut slices = Vec::new();
            for name in names.iter().chain(names.iter().rev()) {
                let Shape { server_us, client_us, rate } = shape(name, count);
                let off = (drift + noise * self.random.normal()).exp();
                let requests = rate * 0.035;
                slices.push(Slice {
                    subject: (*name).to_owned(),
                    requests: requests as u64,
                    server_cpu_us: server_us * off * requests.floor(),
                    client_cpu_us: client_us * off * requests.floor(),
                    requests_per_second: rate / off,
                    server_cpu_share: rate * server_us / 1e6,
                    client_cpu_share: rate * client_us / 1e6,
                    client_wait_share: 0.0,
                    connections_served: count as u64,
                    failures: 0,
                    errors: BTreeMap::new(),
                });
            }
            self.records.blocks.push(Block {
                invalid: None,
                concurrency: count,
                session,
                group: 0,
                number,
                started_at: String::new(),
                slices,
                disturbance: quiet(),
            });
        }
    }

    /// Makes the load a recording, so that the counts are times its users.
    pub(crate) fn of_recording(mut self) -> Self {
        self.heading.design.recording = Some(fixtures::recording());
        self
    }

    /// Has requests of a subject fail in its first slice of a block.
    pub(crate) fn with_failures(
        mut self,
        name: &str,
        block: usize,
        kind: &str,
        count: u64,
    ) -> Self {
        let slices = &mut self.records.blocks[block].slices;
        let slice = slices.iter_mut().find(|slice| slice.subject == name).unwrap();
        slice.failures += count;
        *slice.errors.entry(kind.to_owned()).or_default() += count;
        self
    }

    pub(crate) fn summary(&self) -> Summary {
        Summary::of(&self.heading, &self.records)
    }

    /// Has each server process have a bias of its own in each session, with this standard
    /// deviation.
    pub(crate) fn with_biases(mut self, deviation: f64) -> Self {
        let mut biases: BTreeMap<(usize, String), f64> = BTreeMap::new();
        for block in &mut self.records.blocks {
            for slice in &mut block.slices {
                let key = (block.session, slice.subject.clone());
                let random = &mut self.random;
                let bias = biases.entry(key).or_insert_with(|| (deviation * random.normal()).exp());
                slice.server_cpu_us *= *bias;
            }
        }
        self
    }

    /// Has a slice in twenty take longer by half.
    pub(crate) fn with_outliers(mut self) -> Self {
        for slice in self.records.blocks.iter_mut().flat_map(|block| &mut block.slices) {
            if self.random.below(20) == 0 {
                slice.server_cpu_us *= 1.5;
            }
        }
        self
    }

    /// The verdict at the first number of connections, with no subject disqualified.
    pub(crate) fn bare_verdict(&self) -> Verdict {
        let disqualified = BTreeSet::new();
        let (heading, records) = (&self.heading, &self.records);
        verdicts(Question { heading, records, disqualified: &disqualified }).remove(0)
    }

    /// The verdict at the first number of connections.
    pub(crate) fn verdict(&self) -> Verdict {
        self.summary().verdicts.remove(0)
    }
}

/// The recommended subject.
pub(crate) fn said(trial: &Trial) -> Recommendation {
    recommend(&trial.summary(), &trial.heading, &trial.records)
}

/// All sentences, in order.
pub(crate) fn text(recommendation: &Recommendation) -> Vec<&str> {
    recommendation.all_sentences().collect()
}

/// Whether a sentence has this beginning and this end. The text between has random figures.
pub(crate) fn says(recommendation: &Recommendation, begin: &str, end: &str) -> bool {
    text(recommendation).iter().any(|told| told.starts_with(begin) && told.ends_with(end))
}

/// epoll takes 12 µs, threads 15.
pub(crate) fn clear(name: &str, _: usize) -> Shape {
    busy(if name == "epoll" { 12.0 } else { 15.0 })
}

/// An idle machine.
pub(crate) fn quiet() -> Disturbance {
    let processor = |cpu| Processor {
        host: None,
        cpu,
        is_of_servers: cpu == 0,
        stolen: 0.0,
        strangers: 0.0,
        soft_interrupts_waited: 0.0,
    };
    Disturbance { seconds: 0.8, processors: vec![processor(0), processor(1)], quota: None }
}
