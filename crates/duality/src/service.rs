//! A service of the user's own, with a command line.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
#[cfg(feature = "tool")]
use std::process::ExitCode;
use std::sync::Arc;

use duality_architectures::{Architecture, Handler, Needs, Options, Registry, Served};
use duality_runtime::net::TcpStream;
#[cfg(feature = "rustls")]
use duality_runtime::net::tls::Acceptor;

#[cfg(feature = "tool")]
use crate::cli;
use crate::handle::{self, Handle};

/// Puts TLS before a service.
#[cfg(feature = "rustls")]
pub(crate) type Secure = Arc<dyn Fn(Served, Acceptor) -> Served + Send + Sync>;

/// A service, with facts for a load generator.
pub struct Service {
    pub(crate) served: Served,
    pub(crate) exchange: Option<(Vec<u8>, Vec<u8>)>,
    /// The page that `compare` asks for, if the service speaks HTTP.
    pub(crate) page: Option<String>,
    pub(crate) architectures: Registry,
    /// A foreign runtime that the service uses beside architectures of ours.
    pub(crate) beside: Option<&'static str>,
    /// The default of `--stack-size`, if the service has its own.
    pub(crate) stack_size: Option<usize>,
    /// The service's own way to be served by TLS.
    #[cfg(feature = "rustls")]
    pub(crate) secure: Option<Secure>,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("name", &self.served.name()).finish_non_exhaustive()
    }
}

impl Service {
    /// A service called `name` that calls `serve` for each connection.
    ///
    /// By default, connections of a service share memory, like a closure with an `Arc<Mutex<…>>`.
    /// So fork and prefork, which serve connections in different processes, are refused. If
    /// connections share nothing, declare it:
    /// [`independent_connections`](Service::independent_connections).
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
        Self::of(Served::new(name, needs, Handler::new(serve)))
    }

    /// A service that another crate has composed, such as `duality-tokio` from an application.
    pub fn of(served: Served) -> Self {
        let architectures = Registry::default();
        Self {
            served,
            exchange: None,
            page: None,
            architectures,
            beside: None,
            stack_size: None,
            #[cfg(feature = "rustls")]
            secure: None,
        }
    }

    /// Declares that the service uses a runtime called `name` beside our architectures. Results
    /// show it.
    #[must_use]
    pub fn beside(mut self, runtime: &'static str) -> Self {
        self.beside = Some(runtime);
        self
    }

    /// Sets the bytes of stack of each kernel or user-level thread, unless `--stack-size` says
    /// otherwise. The default is 128 KiB. Only touched pages cost memory.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Has `secure` put TLS before the service, if `serve --tls-cert` asks for TLS. The default is
    /// a handshake before each connection, which only our own architectures make.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn secured_by<S>(mut self, secure: S) -> Self
    where
        S: Fn(Served, Acceptor) -> Served + Send + Sync + 'static,
    {
        self.secure = Some(Arc::new(secure));
        self
    }

    /// Adds architectures of another crate to the service's choice.
    ///
    /// # Panics
    ///
    /// If two architectures have the same name.
    #[must_use]
    pub fn with_architectures(mut self, added: &'static [&'static dyn Architecture]) -> Self {
        self.architectures = Registry::with(added);
        self
    }

    /// Declares that no connection sees another connection's changes in memory. Then each can be
    /// served in a process of its own, so fork and prefork can carry the service.
    ///
    /// Nothing checks this. If connections share memory after all, they do not see each other's
    /// data under fork and prefork.
    #[must_use]
    pub fn independent_connections(mut self) -> Self {
        let needs = Needs { shared_memory: false, ..self.served.needs() };
        self.served = self.served.with_needs(needs);
        self
    }

    /// Calls `hook` for each error that the service returns, with the address of its client.
    /// Without a hook, the first five errors are logged on standard error, except those of clients
    /// that break off.
    ///
    /// The hook is called in the connection's task, so keep it short: under an event loop, all
    /// other connections wait meanwhile. Under fork and prefork it is called in a child process.
    /// The address is `None` if the client has reset the connection before its service began. The
    /// address costs each connection one system call.
    ///
    /// ```
    /// use duality::Service;
    ///
    /// let service = Service::new("picky", |_stream| async { Err(std::io::Error::other("no")) })
    ///     .on_error(|peer, error| {
    ///         let peer = peer.map_or("a client".to_owned(), |peer| peer.to_string());
    ///         eprintln!("{peer}: {error}");
    ///     });
    /// ```
    ///
    /// # Panics
    ///
    /// A panic in the hook is contained, like one in the service.
    #[must_use]
    pub fn on_error<H>(mut self, hook: H) -> Self
    where
        H: Fn(Option<SocketAddr>, &io::Error) + Send + Sync + 'static,
    {
        self.served = self.served.on_error(Arc::new(hook));
        self
    }

    /// The bytes that `compare` sends as one request, and the reply that it must get, byte for
    /// byte.
    #[must_use]
    pub fn exchange(mut self, request: impl Into<Vec<u8>>, reply: impl Into<Vec<u8>>) -> Self {
        self.exchange = Some((request.into(), reply.into()));
        self
    }

    /// The page that `compare` asks for, if the service speaks HTTP. Each reply must have the
    /// status 200 and the body of the first reply.
    #[must_use]
    pub fn page(mut self, path: &str) -> Self {
        self.page = Some(path.to_owned());
        self
    }

    /// Serves the service under the architecture called `architecture`, on new kernel threads.
    /// Returns once the service listens. Port 0 takes a free port, which [`Handle::local_address`]
    /// returns.
    ///
    /// A program can serve several services, one after the other or at the same time. Each has its
    /// own [`Handle`]. The call installs no signal handlers, which are left to the program.
    /// [`architectures`](Service::architectures) lists the names.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::net::TcpStream;
    ///
    /// async fn greet(mut stream: duality::net::TcpStream) -> std::io::Result<()> {
    ///     stream.write_all(b"hello").await
    /// }
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let served = duality::Service::new("greet", greet).serve("epoll", "127.0.0.1:0")?;
    /// let mut reply = String::new();
    /// TcpStream::connect(served.local_address())?.read_to_string(&mut reply)?;
    /// assert_eq!(reply, "hello");
    ///
    /// served.shutdown();
    /// served.join()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - `InvalidInput`: there is no such architecture.
    ///
    /// - `Unsupported`: the architecture makes child processes (fork, prefork), does not meet the
    ///   service's needs, or is not available on this machine.
    ///
    /// - Errors of `bind(2)`, `listen(2)` and the name look-up. `AddrInUse` comes after a second,
    ///   because the address may become free meanwhile.
    ///
    /// - The error if a thread could not be made.
    pub fn serve(&self, architecture: &str, address: impl ToSocketAddrs) -> io::Result<Handle> {
        self.serve_with(architecture, address, &self.options())
    }

    /// Like [`serve`](Service::serve), with options for the architecture: workers, cores, limits,
    /// stack sizes.
    ///
    /// ```
    /// use duality::{Options, Service};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let close = Service::new("close", |_stream| async { Ok(()) });
    /// let options = Options::default().workers(2);
    /// let served = close.serve_with("pool", "127.0.0.1:0", &options)?;
    /// # drop(served);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`serve`](Service::serve).
    pub fn serve_with(
        &self,
        architecture: &str,
        address: impl ToSocketAddrs,
        options: &Options,
    ) -> io::Result<Handle> {
        Handle::start(self, architecture, address, options)
    }

    /// The names of the architectures under which [`serve`](Service::serve) can run this service on
    /// this machine.
    pub fn architectures(&self) -> Vec<&'static str> {
        let options = self.options();
        let carries = |architecture: &&dyn Architecture| {
            handle::refusal(self, *architecture, &options).is_none()
        };
        self.architectures.iter().filter(carries).map(Architecture::name).collect()
    }

    /// The options of an architecture, if the caller chooses none.
    fn options(&self) -> Options {
        let options = Options::default();
        let stack_size = self.stack_size.unwrap_or(options.stack_size);
        options.stack_size(stack_size)
    }

    /// Runs the command line of this service (`serve`, `compare`, `trial` …) and returns the result
    /// for `main`. Needs the feature `tool`, which is on by default.
    #[cfg(feature = "tool")]
    pub fn main(self) -> ExitCode {
        cli::main(Some(self))
    }
}
