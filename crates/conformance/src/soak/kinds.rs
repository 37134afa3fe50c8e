//! All that a client does of its own accord: a registry, with how often each is chosen.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use duality_lab::random::SplitMix64;

use super::question::{Heads, Question};
use super::rounds::Protocol;
use super::wire::Wire;
use super::{faults, right};

/// One way to behave.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// How often it is chosen, beside the others.
    weight: u64,
    act: Act,
}

enum Act {
    /// What comes back is checked: the error is a finding.
    Right(fn(&mut Client<'_>) -> Result<(), String>),
    /// A fault of the client, after which anything may happen to its connection.
    Fault(fn(&mut Client<'_>) -> io::Result<()>),
}

use Act::{Fault, Right};

/// Every kind: first the right ones, then the faults.
pub(super) const ALL: &[Kind] = &[
    kind("kept alive", 16, Right(right::kept_alive)),
    kind("half close after a request", 8, Right(right::half_closed)),
    kind("pipelined", 8, Right(right::pipelined)),
    kind("in pieces", 8, Right(right::in_pieces)),
    kind("burst of 200", 1, Right(right::burst)),
    kind("left at once", 4, Fault(faults::leave_at_once)),
    kind("silent", 2, Fault(faults::silent)),
    kind("reset before a request", 4, Fault(faults::reset_before)),
    kind("reset within a request", 6, Fault(faults::reset_within)),
    kind("reset after a request", 6, Fault(faults::reset_after)),
    kind("reset within a reply", 6, Fault(faults::reset_in_reply)),
    kind("half close within a request", 4, Fault(faults::half_close_within)),
    kind("garbage", 5, Fault(faults::garbage)),
    kind("head too large", 2, Fault(faults::head_too_large)),
    kind("body too large", 2, Fault(faults::body_too_large)),
    kind("slow reader", 2, Fault(faults::slow_reader)),
    kind("reads nothing", 2, Fault(faults::reads_nothing)),
];

const fn kind(name: &'static str, weight: u64, act: Act) -> Kind {
    Kind { name, weight, act }
}

/// What the clients of a round share.
pub(super) struct Scene {
    pub(super) address: SocketAddr,
    pub(super) service: Protocol,
    pub(super) heads: Heads,
    /// One burst at a time.
    pub(super) burst: Mutex<()>,
    /// How often each of [`ALL`] was done.
    counts: Vec<AtomicU64>,
    findings: Mutex<Vec<String>>,
    over: AtomicBool,
    draining: AtomicBool,
}

/// One client: a stream of choices, and connections one after the other.
pub(super) struct Client<'s> {
    pub(super) scene: &'s Scene,
    pub(super) random: SplitMix64,
}

impl Scene {
    pub(super) fn new(address: SocketAddr, service: Protocol) -> Self {
        Self {
            address,
            service,
            heads: Heads::default(),
            burst: Mutex::new(()),
            counts: ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            findings: Mutex::default(),
            over: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// Has all clients come to an end.
    pub(super) fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// From now on, no reply is owed to anybody.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// How often each of [`ALL`] was done.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// What was found, and is then forgotten.
    pub(super) fn findings(&self) -> Vec<String> {
        std::mem::take(&mut self.findings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    fn find(&self, finding: String) {
        if !self.is_draining() {
            self.findings.lock().unwrap_or_else(PoisonError::into_inner).push(finding);
            // The first is the one that matters.
            self.finish();
        }
    }
}

impl Client<'_> {
    /// Does one thing after the other until the round is over.
    pub(super) fn run(&mut self) {
        let weights: u64 = ALL.iter().map(|kind| kind.weight).sum();
        while !self.scene.is_over() {
            let mut drawn = self.random.below(weights);
            let chosen = ALL.iter().position(|kind| match drawn.checked_sub(kind.weight) {
                Some(rest) => {
                    drawn = rest;
                    false
                }
                None => true,
            });
            let chosen = chosen.expect("what is drawn is less than all weights");
            match ALL[chosen].act {
                Right(act) => match act(self) {
                    Ok(()) => {}
                    Err(finding) => self.scene.find(format!("{}: {finding}", ALL[chosen].name)),
                },
                Fault(act) => drop(act(self)),
            }
            // What meets a server that is about to go, or has gone, proves nothing.
            if !self.scene.is_draining() {
                self.scene.counts[chosen].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn connect(&self) -> io::Result<Wire> {
        Wire::connect(self.scene.address)
    }

    pub(super) fn question(&mut self, short: bool) -> Question {
        Question::of(self.scene.service, &mut self.random, short)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// True with a chance of one in `odds`.
    pub(super) fn one_in(&mut self, odds: u64) -> bool {
        self.random.below(odds) == 0
    }
}

/// How many of `counts`, which are in the order of [`ALL`], were right requests, and how many
/// faults.
pub(super) fn right_and_faults(counts: &[u64]) -> (u64, u64) {
    let sum = |is_right: bool| {
        let of_one = |(kind, count): (&Kind, &u64)| {
            if matches!(kind.act, Right(_)) == is_right { *count } else { 0 }
        };
        ALL.iter().zip(counts).map(of_one).sum()
    };
    (sum(true), sum(false))
}
