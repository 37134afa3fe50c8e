//! The servers of a cell, and their balancer. The measurement treats them as one server.
//!
//! The resources of the servers add up. The resources of the balancer do not count.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::server::DistantServer;
use crate::measure::observe::counters::Counters;
use crate::measure::server::Server;
use crate::record::QueueState;

/// Several servers. Requests reach them through the balancer, if there is one.
pub(super) struct Fleet {
    /// The balancer comes first: fields are dropped in order, so the balancer ends before the
    /// servers.
    pub(super) balancer: Option<DistantServer>,
    /// There is at least one server.
    pub(super) servers: Vec<DistantServer>,
}

impl Fleet {
    fn sum(
        &mut self,
        of: impl Fn(&mut DistantServer) -> io::Result<Duration>,
    ) -> io::Result<Duration> {
        self.servers.iter_mut().map(of).sum()
    }
}

impl Server for Fleet {
    fn address(&self) -> SocketAddr {
        let first = self.balancer.as_ref().or(self.servers.first());
        first.expect("there is a server").address()
    }

    fn cpu(&mut self) -> io::Result<Duration> {
        self.sum(Server::cpu)
    }

    fn cpu_with_ended_children(&mut self, living: Duration) -> io::Result<Duration> {
        Ok(living)
    }

    fn settled(&mut self) -> io::Result<Duration> {
        self.sum(Server::settled)
    }

    fn counters(&mut self, with_memory: bool) -> io::Result<Counters> {
        let mut servers = self.servers.iter_mut();
        let first = servers.next().expect("there is a server").counters(with_memory)?;
        servers.try_fold(first, |sum, server| Ok(sum.and(&server.counters(with_memory)?)))
    }

    fn queues(&mut self) -> io::Result<Vec<QueueState>> {
        let mut all = Vec::new();
        for server in &mut self.servers {
            all.extend(server.queues()?);
        }
        Ok(all)
    }

    fn listen_queue(&mut self) -> Option<u64> {
        self.balancer.as_mut().or(self.servers.first_mut())?.listen_queue()
    }

    fn last_words(&mut self, error: Option<&io::Error>) -> String {
        let mut words: Vec<String> =
            self.servers.iter_mut().map(|server| server.last_words(error)).collect();
        words.extend(self.balancer.iter_mut().map(|balancer| balancer.last_words(error)));
        words.dedup();
        words.join("; ")
    }
}
