//! A client, and the shared state of the clients of a round.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use duality_lab::random::SplitMix64;
use duality_lab::{Blame as _, Failure, Party};

use super::question::{Heads, Question};
use super::rounds::Protocol;
use super::wire::Wire;
use super::{Result, wrong};

/// The state that the clients of a round share.
pub(super) struct Scene {
    pub(super) address: SocketAddr,
    pub(super) service: Protocol,
    pub(super) heads: Heads,
    /// The lock that allows one burst at a time.
    pub(super) burst: Mutex<()>,
    /// The number of actions of each kind.
    counts: Vec<AtomicU64>,
    findings: Mutex<Vec<Failure>>,
    over: AtomicBool,
    draining: AtomicBool,
}

/// One client: a stream of choices, and connections one after the other.
pub(super) struct Client<'s> {
    pub(super) scene: &'s Scene,
    pub(super) random: SplitMix64,
}

impl Scene {
    /// Makes the state for clients that behave in `kinds` ways.
    pub(super) fn new(address: SocketAddr, service: Protocol, kinds: usize) -> Self {
        Self {
            address,
            service,
            heads: Heads::default(),
            burst: Mutex::new(()),
            counts: (0..kinds).map(|_| AtomicU64::new(0)).collect(),
            findings: Mutex::default(),
            over: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// Tells all clients to end.
    pub(super) fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// From now on, the server owes no client a reply.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// The number of actions of each kind.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub(super) fn count(&self, kind: usize) {
        self.counts[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the findings so far.
    pub(super) fn findings(&self) -> Vec<Failure> {
        std::mem::take(&mut self.findings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    pub(super) fn find(&self, finding: Failure) {
        if !self.is_draining() {
            self.findings.lock().unwrap_or_else(PoisonError::into_inner).push(finding);
            // Only the first finding matters.
            self.finish();
        }
    }
}

impl Client<'_> {
    pub(super) fn connect(&self) -> io::Result<Wire> {
        Wire::connect(self.scene.address)
    }

    pub(super) fn question(&mut self, short: bool) -> Question {
        Question::of(self.scene.service, &mut self.random, short)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// Returns true with a chance of one in `odds`.
    pub(super) fn one_in(&mut self, odds: u64) -> bool {
        self.random.below(odds) == 0
    }
}

/// Connects. An error is a finding.
pub(super) fn connect(client: &Client<'_>) -> Result<Wire> {
    client.connect().blame_at(Party::Subject, "cannot connect")
}

pub(super) fn unsent(error: io::Error) -> Failure {
    wrong(error).at("cannot send")
}
