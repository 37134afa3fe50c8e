//! A service bound to an address, ready for an architecture to serve.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};

use duality_runtime::net::{Backlog, Injector, ListenOptions, TcpListener};
use duality_runtime::time::{self, Duration};
use duality_runtime::{block_on, threads};

use super::addresses::Addresses;
use super::options::Options;
use super::refusals;
use super::served::Served;
use super::wait_queue::Limit;
use crate::Architecture;

/// A service bound to an address.
pub struct Server {
    /// The service that handles each connection.
    pub service: Served,
    /// The options of the architecture.
    pub options: Options,
    /// One listener for each core, all at the same address.
    listeners: Vec<TcpListener>,
    address: SocketAddr,
    /// The limits for each client address, of all loops and processes together.
    addresses: Addresses,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("service", &self.service)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Listens at `address`, once for each core. Port 0 takes a free port.
    ///
    /// # Errors
    ///
    /// The errors of [`TcpListener::bind`]. An address in use becomes an error after a second.
    pub fn bind(
        architecture: &dyn Architecture,
        service: Served,
        address: SocketAddr,
        options: Options,
    ) -> io::Result<Self> {
        let cores = if architecture.about().replicates { options.cores } else { 1 };
        let listen = ListenOptions::default().backlog(options.backlog).reuse_port(cores > 1);
        // The network of a simulation has no `SO_REUSEPORT`: the loops share an accept queue.
        let is_simulated = threads::here().is_some();
        let first = patiently(|| {
            if listen.reuse_port && !is_simulated {
                alone(address)?;
            }
            TcpListener::bind(address, &listen)
        })?;
        let address = first.local_addr()?;
        let mut listeners = vec![first];
        for _ in 1..cores {
            listeners.push(match is_simulated {
                true => listeners[0].try_clone()?,
                false => TcpListener::bind(address, &listen)?,
            });
        }
        Ok(Self::new(service, options, listeners, address))
    }

    /// A server of listeners that this process has inherited. If there are more cores than
    /// listeners, cores share listeners.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if there are more listeners than the architecture has acceptors. The error of
    /// a lack of descriptors.
    pub fn inherited(
        architecture: &dyn Architecture,
        service: Served,
        mut listeners: Vec<TcpListener>,
        options: Options,
    ) -> io::Result<Self> {
        let cores = if architecture.about().replicates { options.cores } else { 1 };
        if listeners.len() > cores || listeners.is_empty() {
            let given = listeners.len();
            let problem = format!(
                "LISTEN_FDS: {given} sockets were passed on, and the server has {cores} acceptors: \
                 pass one socket, or choose --cores {given}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        for core in listeners.len()..cores {
            listeners.push(listeners[core % listeners.len()].try_clone()?);
        }
        let address = listeners[0].local_addr()?;
        Ok(Self::new(service, options, listeners, address))
    }

    fn new(
        service: Served,
        options: Options,
        listeners: Vec<TcpListener>,
        address: SocketAddr,
    ) -> Self {
        refusals::prepare();
        let addresses = Addresses::limited_by(&options);
        Self { service, options, listeners, address, addresses }
    }

    /// A server of connections that come from the injector instead of a network. The server ends
    /// after it has served all of them.
    ///
    /// # Errors
    ///
    /// The error of a lack of descriptors.
    pub fn injected(service: Served, options: Options) -> io::Result<(Self, Injector)> {
        let (listener, injector) = TcpListener::injected()?;
        let address = (Ipv4Addr::UNSPECIFIED, 0).into();
        Ok((Self::new(service, options, vec![listener], address), injector))
    }

    /// The address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The limit on the connections of each listener.
    #[must_use]
    pub fn limit(&self) -> Limit {
        let Options { max_connections, when_full, .. } = self.options;
        let most = max_connections.div_ceil(self.listeners.len());
        Limit::new(most, when_full).with_addresses(self.addresses)
    }

    /// Tells whether connections wait at the one listener of the server.
    ///
    /// # Errors
    ///
    /// The error of a lack of descriptors.
    pub(crate) fn backlog(&self) -> io::Result<Backlog> {
        self.listeners[0].backlog()
    }

    /// The one listener of the server.
    pub fn into_listener(mut self) -> TcpListener {
        self.listeners.swap_remove(0)
    }

    /// The listeners, one for each core.
    pub fn into_listeners(self) -> Vec<TcpListener> {
        self.listeners
    }
}

/// Checks that nothing listens at `address`. Listeners that share an address (`SO_REUSEPORT`) would
/// share it with another server of the same user too. The two servers would silently divide the
/// connections.
///
/// # Errors
///
/// `AddrInUse`, and the errors of [`TcpListener::bind`].
fn alone(address: SocketAddr) -> io::Result<()> {
    TcpListener::try_address(address)
}

/// Repeats `bind` for a second while the address is in use. The child processes of a killed server
/// end a moment later, and may still hold the port at a restart.
fn patiently(bind: impl Fn() -> io::Result<TcpListener>) -> io::Result<TcpListener> {
    let give_up = time::now() + Duration::from_secs(1);
    loop {
        match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && time::now() < give_up => {
                block_on(time::sleep(Duration::from_millis(10)));
            }
            bound => return bound,
        }
    }
}
