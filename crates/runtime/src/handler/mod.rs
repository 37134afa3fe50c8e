//! The handler of connections, which turns each stream into a task.
//!
//! ```text
//!   service:       async fn(TcpStream) -> io::Result<()>      one type for each service
//!        │ Handler::new
//!        ▼
//!   Handler        one type for all services
//!        │ Handler::begin or Handler::refuse, once for each connection
//!        ▼
//!   BoxedFuture    the connection's task: the service, its count, and the hook for its error
//! ```
//!
//! A registry of services holds handlers, and an architecture runs the tasks that a handler makes.
//! Neither needs the type of a service's future. A wait is still one call, because the future is
//! compiled as a whole where [`Handler::new`] is called.

mod connections;
mod failures;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::net::TcpStream;
use crate::task::BoxedFuture;
use crate::visibility;
use crate::visibility::graph::{self, Trace};

pub use connections::{Active, Connections};
pub use failures::{ErrorHook, Kind as FailureKind, Peer, failures};

/// The function that makes a connection's task, which calls the hook after an error.
type Begin =
    Arc<dyn Fn(TcpStream, Option<Active>, Option<&ErrorHook>) -> BoxedFuture + Send + Sync>;

/// The handler of each connection of a service, and of connections beyond the limit.
#[derive(Clone)]
pub struct Handler {
    serve: Begin,
    refuse: Begin,
}

impl Handler {
    /// A handler that calls `serve` for each connection.
    pub fn new<S, F>(serve: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        failures::prepare();
        let close = |stream| {
            drop(stream);
            std::future::ready(Ok(()))
        };
        Self { serve: beginning(serve), refuse: beginning(close) }
    }

    /// This handler, with `refuse` for connections beyond the limit. Without `refuse`, the server
    /// closes such a connection silently.
    #[must_use]
    pub fn refusing<R, F>(mut self, refuse: R) -> Self
    where
        R: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        self.refuse = beginning(refuse);
        self
    }

    /// The same handler, of the streams that `first` returns. An error of `first` ends the
    /// connection, as one of the service does.
    #[must_use]
    pub fn after<S, F>(self, first: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        let first = Arc::new(first);
        let Self { serve, refuse } = self;
        Self {
            serve: beginning_after(first.clone(), serve),
            refuse: beginning_after(first, refuse),
        }
    }

    /// The task that serves a connection. The connection counts as active until the task is
    /// dropped. On an error, the task calls `hook`. Without a hook, it logs the first few errors.
    pub fn begin(
        &self,
        stream: TcpStream,
        active: Active,
        hook: Option<&ErrorHook>,
    ) -> BoxedFuture {
        let task = (self.serve)(stream, Some(active), hook);
        visibility::connection_began(size_of_val(&*task));
        task
    }

    /// The task that refuses a connection.
    pub fn refuse(&self, stream: TcpStream, hook: Option<&ErrorHook>) -> BoxedFuture {
        let task = (self.refuse)(stream, None, hook);
        visibility::connection_began(size_of_val(&*task));
        task
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handler").finish_non_exhaustive()
    }
}

fn beginning<S, F>(serve: S) -> Begin
where
    S: Fn(TcpStream) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    Arc::new(move |stream, active, hook| {
        let peer = Peer::of_stream(&stream, hook);
        let trace = Trace::begins();
        Box::pin(Serving { future: serve(stream), peer, trace, _connection: Connection(active) })
    })
}

/// Connections begin with `first`, and go on with `then`.
fn beginning_after<S, F>(first: Arc<S>, then: Begin) -> Begin
where
    S: Fn(TcpStream) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<TcpStream>> + Send + 'static,
{
    Arc::new(move |stream, active, hook| {
        let (peer, hook, then) = (Peer::of_stream(&stream, hook), hook.cloned(), then.clone());
        let (connection, first) = (Connection(active), Box::pin(first(stream)));
        Box::pin(async move {
            match first.await {
                Ok(stream) => then(stream, connection.hand_over(), hook.as_ref()).await,
                Err(error) => peer.tell(&error),
            }
        })
    })
}

pin_project! {
    /// Written by hand: an `async` block would store the stream, or the future, twice.
    struct Serving<F> {
        #[pin]
        future: F,
        peer: Peer,
        trace: Option<Box<Trace>>,
        _connection: Connection,
    }
}

impl<F: Future<Output = io::Result<()>>> Future for Serving<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let serving = self.project();
        let turn = graph::run(serving.trace);
        let served = ready!(serving.future.poll(context));
        if let Some(turn) = turn {
            turn.ends();
        }
        if let Err(error) = served {
            serving.peer.tell(&error);
        }
        Poll::Ready(())
    }
}

/// Counts as a connection for as long as its task lives.
struct Connection(Option<Active>);

impl Connection {
    /// Has another task count the connection.
    fn hand_over(mut self) -> Option<Active> {
        let active = self.0.take();
        std::mem::forget(self);
        active
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        visibility::connection_ended();
    }
}
