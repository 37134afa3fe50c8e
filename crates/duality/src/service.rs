//! A service of the user's own, with a command line around it.

use std::future::Future;
use std::io;
use std::process::ExitCode;

use duality_architectures::{Needs, Service as Served};
use duality_runtime::net::TcpStream;

use crate::cli;

/// A service, and what a load generator needs to know of it.
pub struct Service {
    pub(crate) served: Served,
    pub(crate) exchange: Option<(Vec<u8>, Vec<u8>)>,
}

impl Service {
    /// A service called `name` that does with each connection what `serve` does.
    ///
    /// It is taken to share memory among its connections, as a closure does that holds an `Arc<Mutex<…>>`: so the
    /// architectures that serve connections in different processes, fork and prefork, are refused. A service whose
    /// connections share nothing says so: [`independent_connections`](Service::independent_connections).
    pub fn new<S, F>(name: &str, serve: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self::with_needs(name, Needs { shared_memory: true, ..Needs::default() }, serve)
    }

    /// Like [`new`](Service::new), for a service that some architectures cannot carry.
    pub fn with_needs<S, F>(name: &str, needs: Needs, serve: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let needs = Needs { straight_line: true, ..needs };
        Self { served: Served::new(name, needs, serve), exchange: None }
    }

    /// Says that no connection sees what another has changed in memory, so that each may be served in a process of its
    /// own: fork and prefork can then carry the service.
    ///
    /// Nothing checks this. A service that shares memory after all loses, under those two, what one connection
    /// tells another.
    #[must_use]
    pub fn independent_connections(mut self) -> Self {
        let needs = Needs { shared_memory: false, ..self.served.needs() };
        self.served = self.served.with_needs(needs);
        self
    }

    /// What `compare` sends as one request, and the reply that it must get, byte for byte.
    #[must_use]
    pub fn exchange(mut self, request: impl Into<Vec<u8>>, reply: impl Into<Vec<u8>>) -> Self {
        self.exchange = Some((request.into(), reply.into()));
        self
    }

    /// Runs the command line of this service (`serve`, `compare`, `architectures` …) and returns what
    /// `main` is to return.
    pub fn main(self) -> ExitCode {
        cli::main(Some(self))
    }
}
