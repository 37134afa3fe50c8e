//! The acceptor of a server. By [`WaitQueue`], it decides which connection is served next, and
//! which connection is refused.
//!
//! Refused connections have no slot. The service sends the refusal, and then reads until the client
//! has gone, within a time limit. Otherwise the close could destroy the refusal. At most
//! [`MOST_REFUSALS`] connections are refused at a time. Further ones wait in the queue.
//!
//! A connection beyond a limit for its address is refused at once. Such a connection never waits in
//! the queue. If [`MOST_REFUSALS`] are being refused already, it is closed without a message.

use std::io;

use duality_runtime::handler::Connections;
use duality_runtime::net::{TcpListener, TcpStream};
use duality_runtime::time::{self, Duration, sleep, timeout};
use duality_runtime::{block_on, task};

use super::addresses::Addresses;
use super::admission::Admission;
use super::pressure::Pressure;
use super::refusals::{self, Reason};
use super::served::{ConnectionTask, Served};
use super::wait_queue::{Limit, MOST_REFUSALS, Turn, WaitQueue};

/// The interval of checks of waiting and refused connections, if nothing else happens.
const LOOK: Duration = Duration::from_millis(20);

/// Where refusals run.
pub(crate) trait Refusals {
    /// Begins a refusal.
    fn begin(&mut self, refusal: ConnectionTask);

    /// The number of connections that the server is serving.
    fn count(&self) -> usize;

    /// Continues the refusals as far as possible without waiting. True if it must be called again.
    fn attend(&mut self) -> bool;
}

/// Tasks of the acceptor's loop.
#[derive(Default)]
pub(crate) struct AsTasks(Connections);

impl Refusals for AsTasks {
    fn begin(&mut self, refusal: ConnectionTask) {
        let active = self.0.enter();
        // If there is no room for a task, the connection closes without a message.
        let _ = task::spawn(async move {
            refusal.await;
            drop(active);
        });
    }

    fn count(&self) -> usize {
        self.0.count()
    }

    fn attend(&mut self) -> bool {
        false
    }
}

/// Futures that the acceptor's own kernel thread polls, for architectures in which a task would
/// take a thread or a worker.
#[derive(Default)]
pub(crate) struct InPlace(Vec<ConnectionTask>);

impl Refusals for InPlace {
    fn begin(&mut self, refusal: ConnectionTask) {
        self.0.push(refusal);
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn attend(&mut self) -> bool {
        self.0.retain_mut(|refusal| {
            let mut goes_on = false;
            task::contain(|| goes_on = block_on(timeout(Duration::ZERO, refusal)).is_err());
            goes_on
        });
        !self.0.is_empty()
    }
}

/// Accepts for a server.
pub(crate) struct Acceptor<R> {
    listener: TcpListener,
    service: Served,
    /// The served connections, or one entry for each. When one ends, the acceptor looks again.
    connections: Connections,
    admission: Admission,
    addresses: Addresses,
    queue: WaitQueue<TcpStream>,
    refusals: R,
    pub(crate) pressure: Pressure,
    /// Whether the listener accepts no more.
    is_over: bool,
}

impl<R: Refusals + Default> Acceptor<R> {
    pub(crate) fn new(
        listener: TcpListener,
        service: &Served,
        limit: Limit,
        connections: &Connections,
        admission: Admission,
    ) -> Self {
        Self {
            listener,
            service: service.clone(),
            connections: connections.clone(),
            admission,
            addresses: limit.addresses(),
            queue: WaitQueue::new(limit),
            refusals: R::default(),
            pressure: Pressure::new(connections),
            is_over: false,
        }
    }

    pub(crate) fn listener(&mut self) -> &mut TcpListener {
        &mut self.listener
    }

    /// The number of connections that the acceptor holds. Served connections do not count.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.refusals.count()
    }

    /// The next connection to be served, beside the `served` ones. `None` if no more will come. The
    /// future may be dropped.
    pub(crate) async fn next(&mut self, served: impl Fn() -> usize) -> Option<TcpStream> {
        loop {
            let is_refusing = self.refusals.attend();
            if !self.queue.is_empty() {
                let may_refuse = self.refusals.count() < MOST_REFUSALS;
                match self.queue.turn(served(), may_refuse, time::now()) {
                    Turn::Serve(stream) => return Some(stream),
                    Turn::Refuse(stream) => {
                        refusals::count(Reason::Full);
                        self.refusals.begin(self.service.refuse(stream));
                        continue;
                    }
                    Turn::Wait => {}
                }
            } else if self.is_over {
                return None;
            }
            let accepted = if !self.queue.is_empty() {
                self.accept_or_look(&served).await
            } else if is_refusing {
                timeout(LOOK, self.accept(&served)).await.ok().flatten()
            } else {
                self.accept(&served).await
            };
            match accepted.map(|stream| self.addresses.admit(stream)) {
                Some(Ok(stream)) if self.queue.passes(served()) => return Some(stream),
                Some(Ok(stream)) => self.queue.join(stream, time::now()),
                Some(Err(stream)) if self.refusals.count() < MOST_REFUSALS => {
                    self.refusals.begin(self.service.refuse(stream));
                }
                Some(Err(_)) | None => {}
            }
        }
    }

    /// Accepts a connection, as soon as there is one and the resources for it.
    async fn accept(&mut self, served: impl Fn() -> usize) -> Option<TcpStream> {
        let held = || served() + self.queue.len() + self.refusals.count();
        self.pressure.admit(&self.admission, held).await;
        let accepted = self.listener.accept_until_drain().await;
        self.note(accepted).await
    }

    /// Accepts a connection, if there is one and the queue has room for it. Otherwise waits until a
    /// connection ends, or until the queue or a refusal needs a look.
    async fn accept_or_look(&mut self, served: impl Fn() -> usize) -> Option<TcpStream> {
        let is_admitted = || self.admission.check(served() + self.waiting()).is_ok();
        if !self.is_over && self.queue.has_room() && is_admitted() {
            let attempt = timeout(Duration::ZERO, self.listener.accept_until_drain()).await;
            if let Ok(accepted) = attempt {
                return self.note(accepted).await;
            }
        }
        let end = self.queue.end_of_patience();
        let left = end.map(|end| end.saturating_duration_since(time::now()));
        self.connections
            .one_ended(left.filter(|left| !left.is_zero()).unwrap_or(LOOK).min(LOOK))
            .await;
        None
    }

    async fn note(&mut self, accepted: io::Result<Option<TcpStream>>) -> Option<TcpStream> {
        match accepted {
            Ok(Some(stream)) => {
                self.pressure.relieved();
                Some(stream)
            }
            Ok(None) => {
                self.is_over = true;
                None
            }
            Err(error) => {
                self.pressure.wait_out("accept", &error).await;
                None
            }
        }
    }

    /// Closes the listener, and waits until all refusals have ended.
    pub(crate) async fn close(self) {
        let Self { listener, mut refusals, .. } = self;
        drop(listener);
        while refusals.attend() || refusals.count() > 0 {
            sleep(LOOK).await;
        }
    }
}
