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
    /// A service called `name` that does with each connection what `serve` does, and needs nothing
    /// special of its architecture.
    pub fn new<S, F>(name: &str, serve: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self::with_needs(name, Needs::default(), serve)
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
