//! A server, and a store, on another host.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::link::Link;
use super::protocol::{Answer, Order};
use crate::measure::observe::counters::Counters;
use crate::measure::server::Server;
use crate::measure::store::Elsewhere;
use crate::record::QueueState;

/// A server on another host. The server ends when this value is dropped.
pub(super) struct DistantServer {
    link: Arc<Link>,
    number: u64,
    address: SocketAddr,
}

impl DistantServer {
    pub(super) fn new(link: Arc<Link>, number: u64, address: SocketAddr) -> Self {
        Self { link, number, address }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    fn ask(&self, order: &Order) -> io::Result<Answer> {
        self.link.ask(order).map_err(io::Error::other)
    }

    fn time(&self, order: &Order) -> io::Result<Duration> {
        match self.ask(order)? {
            Answer::Time(time) => Ok(time),
            other => Err(io::Error::other(self.link.odd(&other))),
        }
    }
}

impl Server for DistantServer {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn cpu(&mut self) -> io::Result<Duration> {
        self.time(&Order::Cpu { number: self.number })
    }

    fn cpu_with_ended_children(&mut self, living: Duration) -> io::Result<Duration> {
        // The server's host has already counted the children.
        Ok(living)
    }

    fn settled(&mut self) -> io::Result<Duration> {
        self.time(&Order::Settled { number: self.number })
    }

    fn counters(&mut self, with_memory: bool) -> io::Result<Counters> {
        match self.ask(&Order::Counters { number: self.number, with_memory })? {
            Answer::Counters(counters) => Ok(counters),
            other => Err(io::Error::other(self.link.odd(&other))),
        }
    }

    fn queues(&mut self) -> io::Result<Vec<QueueState>> {
        match self.ask(&Order::Queues { number: self.number })? {
            Answer::Queues(queues) => Ok(queues),
            other => Err(io::Error::other(self.link.odd(&other))),
        }
    }

    fn listen_queue(&mut self) -> Option<u64> {
        match self.ask(&Order::ListenQueue { number: self.number }) {
            Ok(Answer::Length(length)) => length,
            _ => None,
        }
    }

    fn last_words(&mut self, error: Option<&io::Error>) -> String {
        if let Some(lost) = self.link.lost() {
            return lost.to_string();
        }
        let order = Order::LastWords { number: self.number, error: error.map(ToString::to_string) };
        match self.ask(&order) {
            Ok(Answer::Text(Some(words))) if words.is_empty() => words,
            Ok(Answer::Text(Some(words))) => format!("host {}: {words}", self.link.host()),
            Ok(_) => error.map_or(String::new(), ToString::to_string),
            Err(lost) => lost.to_string(),
        }
    }
}

impl Drop for DistantServer {
    fn drop(&mut self) {
        // The agent of a lost host ends its processes by itself.
        let _ = self.link.done(&Order::End { number: self.number });
    }
}

/// A store on another host. The store ends when this value is dropped.
pub(super) struct DistantStore {
    link: Arc<Link>,
    number: u64,
}

impl DistantStore {
    pub(super) fn new(link: Arc<Link>, number: u64) -> Self {
        Self { link, number }
    }
}

impl Elsewhere for DistantStore {
    fn problem(&mut self) -> Option<String> {
        match self.link.ask(&Order::Problem { number: self.number }) {
            Ok(Answer::Text(problem)) => problem,
            Ok(other) => Some(self.link.odd(&other).to_string()),
            Err(lost) => Some(lost.to_string()),
        }
    }
}

impl Drop for DistantStore {
    fn drop(&mut self) {
        let _ = self.link.done(&Order::End { number: self.number });
    }
}
