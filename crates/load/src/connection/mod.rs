//! The connections of a load: their shared state, and the steps that all patterns share.

pub(crate) mod gate;

use std::time::{Duration, Instant};

use duality_runtime::net::TcpStream;
use duality_runtime::time;

use self::gate::Gate;
use crate::failure::Failure;
use crate::measurement::Start;
use crate::recorder::Recorder;
use crate::request::{Client, Reply};
use crate::sources::Route;

/// The wait after the first failed attempt to open a connection. Each further failure doubles the
/// wait, up to a second.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The state that the connections of a load share.
pub(crate) struct Load {
    /// The ways to the servers. There is at least one.
    pub(crate) routes: Vec<Route>,
    /// Whether a connection carries more than one request.
    pub(crate) keep_alive: bool,
    pub(crate) reply_timeout: Duration,
    pub(crate) recorder: Recorder,
    /// Whether connections may make requests now.
    pub(crate) gate: Gate,
}

impl Load {
    /// The way of a connection: connections go to the servers in turn.
    fn route(&self, connection: usize) -> &Route {
        &self.routes[connection % self.routes.len()]
    }
}

/// A connection, open or not, and its client.
pub(crate) struct Connection<C> {
    /// The index of the connection in the load.
    pub(crate) number: usize,
    client: C,
    stream: Option<TcpStream>,
    /// The connection was opened for the request that is under way. Otherwise, the server may have
    /// closed the connection since its last use, as servers are free to do.
    fresh: bool,
    /// The wait before the next attempt to open the connection.
    pause: Duration,
}

impl<C: Client> Connection<C> {
    /// A connection that is not open yet, with its own copy of `client`.
    pub(crate) fn new(number: usize, client: &C) -> Self {
        let client = client.for_connection(number);
        Self { number, client, stream: None, fresh: false, pause: FIRST_PAUSE }
    }

    /// Opens the connection. Closes an earlier stream first.
    pub(crate) async fn open(&mut self, load: &Load) -> Result<(), Failure> {
        self.stream = None;
        self.stream = Some(load.route(self.number).connect(load.reply_timeout).await?);
        load.recorder.connected();
        self.client.connected();
        Ok(())
    }

    /// Makes one request.
    #[inline]
    pub(super) async fn request(&mut self, load: &Load) -> Result<Reply, Failure> {
        self.send(load).await?;
        self.receive(load).await
    }

    /// Sends one request. Opens a new connection if there is none, or if the server has closed it
    /// since its last use.
    #[inline]
    pub(super) async fn send(&mut self, load: &Load) -> Result<(), Failure> {
        self.fresh = false;
        if let Some(stream) = &mut self.stream {
            match self.client.send(stream).await {
                Err(failure) if failure.is_before_reply() => {}
                other => return other,
            }
        }
        self.send_anew(load).await
    }

    /// Reads the reply to the request that was sent last. If the connection was closed before that
    /// request, replaces the connection and makes the request again. This is no failure.
    #[inline]
    pub(super) async fn receive(&mut self, load: &Load) -> Result<Reply, Failure> {
        if let Some(stream) = &mut self.stream {
            match self.client.receive(stream).await {
                Err(failure) if failure.is_before_reply() && !self.fresh => {}
                other => return other,
            }
        }
        self.send_anew(load).await?;
        let stream = self.stream.as_mut().expect("a request was sent on it");
        self.client.receive(stream).await
    }

    async fn send_anew(&mut self, load: &Load) -> Result<(), Failure> {
        self.open(load).await?;
        self.fresh = true;
        let stream = self.stream.as_mut().expect("it was opened");
        self.client.send(stream).await
    }

    /// Reports to the recorder how the request that began at `start` ended. Leaves the connection
    /// open only if it may carry another request. Returns when the next request may begin. Without
    /// a connection, this is after a pause, so that an unreachable server is not asked in a busy
    /// loop.
    #[inline]
    pub(super) async fn end(
        &mut self,
        load: &Load,
        start: Start,
        outcome: Result<Reply, Failure>,
    ) -> Instant {
        let end = Instant::now();
        match outcome {
            Ok(reply) => {
                load.recorder.reply(self.number, start, end, reply);
                self.pause = FIRST_PAUSE;
                if load.keep_alive && reply.open {
                    return end;
                }
                self.stream = None;
            }
            Err(failure) => {
                load.recorder.failure(self.number, &failure);
                self.stream = None;
                if failure.is_connect() {
                    time::sleep(self.pause).await;
                    self.pause = (2 * self.pause).min(LONGEST_PAUSE);
                }
            }
        }
        // The close belongs to neither request.
        Instant::now()
    }
}
