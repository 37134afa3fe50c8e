//! What a test decides of links: a link holds back its packets for a while, or has a latency of its
//! own.
//!
//! ```text
//!   wire ─ a packet is due ─▶ held? ─ no ─▶ received
//!                               └─ yes ─▶ kept in order ─ release ─▶ due at once
//! ```
//!
//! A held packet is not lost. The sender's kernel neither sends it again nor gives up.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Network;
use super::datagrams::Datagram;
use crate::decisions::Kind;

/// The links that differ from what the seed has drawn, by the two hosts.
#[derive(Default)]
pub(super) struct Links {
    held: BTreeMap<(usize, usize), Held>,
    latencies: BTreeMap<(usize, usize), (u64, u64)>,
}

/// What a link holds back: wires of connections, and datagrams.
#[derive(Default)]
struct Held {
    wires: Vec<u64>,
    datagrams: Vec<(Datagram, SocketAddr)>,
}

impl Network {
    /// Holds all packets from one host to another one, those on their way included.
    pub(crate) fn hold(&mut self, from: usize, to: usize) {
        self.decisions.note(0x401D ^ ((from as u64) << 40) ^ ((to as u64) << 50));
        self.tell(|net| format!("‖ packets from {} to {} are held", net.name(from), net.name(to)));
        self.links.held.entry((from, to)).or_default();
    }

    /// Has all packets arrive that a link holds.
    pub(crate) fn release(&mut self, from: usize, to: usize) {
        let Some(held) = self.links.held.remove(&(from, to)) else { return };
        self.decisions.note(0x4EE ^ ((from as u64) << 40) ^ ((to as u64) << 50));
        self.tell(|net| format!("packets from {} to {} go on", net.name(from), net.name(to)));
        let now = self.now;
        held.wires.into_iter().for_each(|to| self.schedule(to, now));
        for (datagram, to) in held.datagrams {
            self.next_arrival += 1;
            self.flying.insert((now, self.next_arrival), (datagram, to));
        }
    }

    pub(super) fn release_all(&mut self) {
        let held: Vec<(usize, usize)> = self.links.held.keys().copied().collect();
        held.into_iter().for_each(|(from, to)| self.release(from, to));
    }

    /// Keeps a wire on which a packet is due, if its link is held.
    pub(super) fn holds_wire(&mut self, from: usize, host: usize, to: u64) -> bool {
        let Some(held) = self.links.held.get_mut(&(from, host)) else { return false };
        held.wires.push(to);
        self.counts.held += 1;
        true
    }

    /// Keeps a datagram that is due, if its link is held.
    pub(super) fn holds_datagram(
        &mut self,
        (from, host): (usize, usize),
        datagram: &Datagram,
        to: SocketAddr,
    ) -> bool {
        let Some(held) = self.links.held.get_mut(&(from, host)) else { return false };
        held.datagrams.push((datagram.clone(), to));
        self.counts.held += 1;
        true
    }

    /// Gives a link a latency of its own, the least and the most in nanoseconds.
    pub(crate) fn set_latency(&mut self, from: usize, to: usize, latency: (u64, u64)) {
        self.links.latencies.insert((from, to), latency);
    }

    /// The least and the most latency of a link. Without its own, it has what the seed has drawn.
    pub(super) fn latency_of(&self, from: usize, to: usize) -> (u64, u64) {
        self.links.latencies.get(&(from, to)).copied().unwrap_or(self.profile.latency)
    }

    /// Draws the latency of a packet.
    pub(super) fn draw_latency(&mut self, from: usize, to: usize) -> u64 {
        let (least, most) = self.latency_of(from, to);
        least + self.draw(Kind::Latency, most - least)
    }
}
