//! A service as architectures see it: its handler of connections, and its needs.

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use duality_runtime::handler::{Active, ErrorHook, Handler, Peer};
use duality_runtime::net::{TcpListener, TcpStream};
use duality_runtime::task::BoxedFuture;

use super::admission::Admission;
use super::wait_queue::Limit;
use crate::Architecture;

/// The needs of a service, or the needs that an architecture meets.
///
/// A service begins with no needs and adds its own. So a new kind of need does not affect it:
/// `Needs::default().with_concurrent_connections()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The service is straight-line code, which becomes a task, and no state machine written by
    /// hand.
    pub straight_line: bool,
    /// Connections can reach the same memory, because they are in one process.
    pub shared_memory: bool,
    /// More than one connection is served at a time.
    pub concurrent_connections: bool,
}

impl Needs {
    /// Every need: what an architecture meets that can carry any service.
    pub const ALL: Self =
        Self { straight_line: true, shared_memory: true, concurrent_connections: true };

    /// These needs, and shared memory for connections.
    #[must_use]
    pub const fn with_shared_memory(mut self) -> Self {
        self.shared_memory = true;
        self
    }

    /// These needs, and more than one connection at a time.
    #[must_use]
    pub const fn with_concurrent_connections(mut self) -> Self {
        self.concurrent_connections = true;
        self
    }

    /// The needs that `given` does not meet, in words.
    pub fn missing_from(self, given: Self) -> Option<&'static str> {
        if self.straight_line && !given.straight_line {
            Some("needs straight-line code to be run: its state machine is not written by hand")
        } else if self.shared_memory && !given.shared_memory {
            Some("needs shared memory")
        } else if self.concurrent_connections && !given.concurrent_connections {
            Some("needs concurrent connections")
        } else {
            None
        }
    }
}

/// A connection's task, from the first byte to the close.
pub type ConnectionTask = BoxedFuture;

/// A service's state machines and event loop, written by hand. The function is called once for each
/// core, with the limit on the core's connections. It opens the loop's resources, and returns a
/// function that runs the loop until the process drains.
pub type ByHand = Arc<dyn Fn(Limit) -> io::Result<OpenedByHand> + Send + Sync>;

/// Work of a service before its first connection.
type Preparation = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Runs an open loop with its listener, and accepts within the given bounds.
pub type OpenedByHand = Box<dyn FnOnce(TcpListener, Admission)>;

/// The handler of one connection, under every architecture.
#[derive(Clone)]
pub struct Served {
    name: Arc<str>,
    needs: Needs,
    handler: Handler,
    preparation: Option<Preparation>,
    by_hand: Option<ByHand>,
    /// The form of the service that a foreign runtime runs.
    foreign: Option<Arc<dyn Any + Send + Sync>>,
    on_error: Option<ErrorHook>,
    /// How many descriptors a connection has, its socket included.
    descriptors: usize,
}

impl Served {
    /// A service that calls `handler` for each connection.
    pub fn new(name: &str, needs: Needs, handler: Handler) -> Self {
        Self {
            name: name.into(),
            needs,
            handler,
            preparation: None,
            by_hand: None,
            foreign: None,
            on_error: None,
            descriptors: 1,
        }
    }

    /// Adds work that comes before the first connection, such as a connection to a database. The
    /// work may start threads.
    #[must_use]
    pub fn prepared_by(
        mut self,
        prepare: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.preparation = Some(Arc::new(prepare));
        self
    }

    /// Does the work of [`prepared_by`](Self::prepared_by), if `architecture` serves connections in
    /// this process, and by the service's handler. Elsewhere, each process or runtime prepares
    /// itself.
    ///
    /// # Errors
    ///
    /// Those of the work.
    pub fn prepare_for(&self, architecture: &dyn Architecture) -> io::Result<()> {
        match &self.preparation {
            Some(prepare)
                if !architecture.about().forks
                    && architecture.about().foreign_runtime.is_none() =>
            {
                prepare()
            }
            _ => Ok(()),
        }
    }

    /// Adds a state machine written by hand to the service. The machine must give the same answers.
    #[must_use]
    pub fn by_hand(mut self, program: ByHand) -> Self {
        self.by_hand = Some(program);
        self
    }

    /// The service after `first` on each connection, such as a handshake. The service
    /// then runs as straight-line code alone, because its other forms do not know `first`.
    #[must_use]
    pub fn after<S, F>(mut self, first: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        self.handler = self.handler.after(first);
        self.needs.straight_line = true;
        (self.by_hand, self.foreign) = (None, None);
        self
    }

    /// Adds the form of the service that architectures of a foreign runtime run. That form must
    /// give the same answers.
    #[must_use]
    pub fn with_foreign<T: Any + Send + Sync>(mut self, form: T) -> Self {
        self.foreign = Some(Arc::new(form));
        self
    }

    /// The form that was added by [`with_foreign`](Self::with_foreign).
    ///
    /// # Errors
    ///
    /// If the service has no form of this type.
    pub fn foreign<T: Any + Send + Sync>(&self) -> io::Result<&T> {
        let form = self.foreign.as_ref().and_then(|form| form.downcast_ref());
        form.ok_or_else(|| {
            let name = &self.name;
            io::Error::other(format!("{name} does not run here: choose another architecture"))
        })
    }

    /// The client of a new connection, for messages about the connection's errors.
    pub fn peer(&self, socket: BorrowedFd<'_>) -> Peer {
        Peer::of(socket, self.on_error.as_ref())
    }

    /// Calls `hook` for each error of the service, instead of logging the first few.
    ///
    /// Each connection then costs a getpeername(2) and a small allocation. Errors of a state
    /// machine written by hand are still logged.
    #[must_use]
    pub fn on_error(mut self, hook: ErrorHook) -> Self {
        self.on_error = Some(hook);
        self
    }

    /// Sets what the service needs of its architecture.
    #[must_use]
    pub fn with_needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// Sets how many descriptors each connection keeps, its socket included.
    #[must_use]
    pub fn with_descriptors(mut self, each: usize) -> Self {
        self.descriptors = each;
        self
    }

    /// How many descriptors a connection keeps.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// Opens the loop of the state machine written by hand, for one core.
    pub(crate) fn open_by_hand(&self, limit: Limit) -> io::Result<OpenedByHand> {
        match &self.by_hand {
            Some(open) => open(limit),
            None => Err(io::Error::other(format!(
                "the state machine of {} is not written by hand: choose another architecture",
                self.name
            ))),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its needs.
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// The task that refuses a connection.
    pub(crate) fn refuse(&self, stream: TcpStream) -> ConnectionTask {
        self.handler.refuse(stream, self.on_error.as_ref())
    }

    /// The task that serves a connection. The connection counts as active until the task is
    /// dropped.
    pub fn begin(&self, stream: TcpStream, active: Active) -> ConnectionTask {
        self.handler.begin(stream, active, self.on_error.as_ref())
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Served").field("name", &self.name).finish_non_exhaustive()
    }
}
