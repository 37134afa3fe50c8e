//! The acceptor of a layout, on a runtime of tokio, within the limits of every architecture.
//!
//! ```text
//!   accept queue ─▶ admission ─▶ address ─┬─ a slot is free ──────────▶ Accepted
//!                                         ├─▶ queue ─ a slot ─────────▶ Accepted
//!                                         └─▶ refused: 503, at most 64 at a time
//! ```
//!
//! The rules come from `duality_architectures::common`: what may be accepted, which connection is
//! served next, and which connection is refused. Only the waits are tokio's.
//!
//! A *slot* counts a connection until it ends. A slot also tells the connection to close, once the
//! server drains.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream as StdStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use duality_architectures::Served;
use duality_architectures::common::addresses::{Addresses, Counted};
use duality_architectures::common::admission::Admission;
use duality_architectures::common::pressure::{PAUSE, Pressure};
use duality_architectures::common::refusals::{self, Reason};
use duality_architectures::common::wait_queue::{Limit, MOST_REFUSALS, Turn, WaitQueue};
use duality_runtime::handler::{Connections, Peer};
use duality_runtime::net::TcpListener;
use duality_runtime::visibility;
use rustix::io::ioctl_fionbio;
use rustix::net::{SocketFlags, accept_with, getpeername};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::coop::consume_budget;
use tokio::time::{sleep_until, timeout};

use crate::drain::{Closing, Stop};
use crate::instance::Instance;
use crate::readable::Readable;
use crate::refusal;

/// Accepts for a layout.
pub(crate) struct Acceptor {
    listener: TcpListener,
    readable: Readable,
    service: Served,
    admission: Admission,
    addresses: Addresses,
    queue: WaitQueue<Waiting>,
    pressure: Pressure,
    slots: Slots,
    /// The connections that are being refused, which have no slot.
    refusing: Slots,
    stop: Stop,
    /// The listener accepts no more.
    is_over: bool,
}

/// The reason why a wait of the acceptor ended.
enum Event {
    Came(io::Result<OwnedFd>),
    /// All connections that came before the drain have been accepted.
    Over,
    /// The queue must be checked again.
    Look,
    /// The server drains.
    Drains,
}

impl Acceptor {
    /// Makes an acceptor of the runtime that this function is called on.
    ///
    /// # Errors
    ///
    /// Fails when no descriptor is left.
    pub(crate) fn new(
        listener: TcpListener,
        service: &Served,
        limit: Limit,
        admission: Admission,
        stop: Stop,
    ) -> io::Result<Self> {
        ioctl_fionbio(&listener, true)?;
        let readable = Readable::watch(&listener)?;
        Ok(Self {
            listener,
            readable,
            service: service.clone(),
            admission,
            addresses: limit.addresses(),
            queue: WaitQueue::new(limit),
            pressure: Pressure::new(&Connections::default()),
            slots: Slots::new(),
            refusing: Slots::new(),
            stop,
            is_over: false,
        })
    }

    /// Returns the next connection to be served. `None` if no more will come.
    pub(crate) async fn next(&mut self) -> Option<Accepted> {
        loop {
            let may_refuse = self.refusing.count() < MOST_REFUSALS;
            match self.queue.turn(self.slots.count(), may_refuse, Instant::now()) {
                Turn::Serve(waiting) => return Some(self.begin(waiting)),
                Turn::Refuse(waiting) => {
                    refusals::count(Reason::Full);
                    self.refuse(waiting.stream);
                    continue;
                }
                Turn::Wait if self.is_over && self.queue.is_empty() => return None,
                Turn::Wait => {}
            }
            self.admit().await;
            match self.event().await {
                Event::Came(Ok(socket)) => {
                    self.pressure.relieved();
                    if let Some(waiting) = self.arrive(socket) {
                        return Some(self.begin(waiting));
                    }
                }
                Event::Came(Err(error)) => self.wait_out("accept", &error).await,
                Event::Over => self.is_over = true,
                Event::Drains => self.slots.close(),
                Event::Look => {}
            }
        }
    }

    /// Waits until `what` may be tried again, after it failed with `error`.
    pub(crate) async fn wait_out(&mut self, what: &str, error: &io::Error) {
        if self.pressure.is_lack(what, error) {
            let _ = timeout(PAUSE, self.slots.ended.notified()).await;
        }
    }

    /// Waits until there are descriptors and memory for another connection.
    async fn admit(&mut self) {
        let held = |acceptor: &Self| {
            acceptor.slots.count() + acceptor.refusing.count() + acceptor.queue.len()
        };
        while let Err(lack) = self.admission.check(held(self)) {
            if self.stop.is_requested() {
                return;
            }
            self.wait_out("accept", &lack).await;
        }
    }

    async fn event(&mut self) -> Event {
        let is_full = !self.queue.is_empty();
        let may_accept = !self.is_over && self.queue.has_room();
        let patience = self.queue.end_of_patience().unwrap_or_else(Instant::now);
        let drains = self.slots.are_closing();
        tokio::select! {
            biased;
            () = self.stop.requested(), if !drains => Event::Drains,
            accepted = accept(&mut self.listener, &self.readable, drains), if may_accept => accepted,
            () = self.slots.ended.notified(), if is_full => Event::Look,
            () = self.refusing.ended.notified(), if is_full => Event::Look,
            () = sleep_until(patience.into()), if is_full => Event::Look,
        }
    }

    /// Returns a connection for which there is a slot. Otherwise lets the connection wait for a
    /// slot, or refuses the connection because of its address.
    fn arrive(&mut self, socket: OwnedFd) -> Option<Waiting> {
        visibility::connection_accepted();
        let counted = match self.count(&socket) {
            Ok(counted) => counted,
            Err(reason) => {
                refusals::count(reason);
                if self.refusing.count() < MOST_REFUSALS {
                    self.refuse(socket.into());
                } else {
                    visibility::connection_ended();
                }
                return None;
            }
        };
        let peer = self.service.peer(socket.as_fd());
        let waiting = Waiting { stream: socket.into(), peer, counted };
        if self.queue.passes(self.slots.count()) {
            return Some(waiting);
        }
        self.queue.join(waiting, Instant::now());
        None
    }

    fn begin(&self, Waiting { stream, peer, counted }: Waiting) -> Accepted {
        Accepted { stream, peer, slot: self.slots.take(counted) }
    }

    fn count(&self, socket: &OwnedFd) -> Result<Option<Counted>, Reason> {
        if !self.addresses.are_limited() {
            return Ok(None);
        }
        // A connection that the client has reset has no address any more.
        let peer = getpeername(socket).ok().flatten();
        let address = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        address.map_or(Ok(None), |address| self.addresses.count(address.ip()))
    }

    /// Refuses a connection with a reply of HTTP, while others go on.
    fn refuse(&self, stream: StdStream) {
        let Slot { closing, end } = self.refusing.take(None);
        tokio::spawn(async move {
            // The connection closes after any error.
            let _ = refusal::send(stream).await;
            drop(closing);
            drop(end);
        });
    }

    /// Closes the listener, and waits until all connections have ended.
    pub(crate) async fn close(self) {
        let Self { listener, readable, slots, refusing, queue, .. } = self;
        drop((listener, readable, queue));
        slots.close();
        slots.all_ended().await;
        refusing.all_ended().await;
    }
}

/// Accepts a connection. During a drain, accepts only connections that came before the drain.
async fn accept(listener: &mut TcpListener, readable: &Readable, drains: bool) -> Event {
    // A flood of connections must leave the runtime's other tasks their turns.
    consume_budget().await;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let mut attempt = || listener.accept_before_drain(|listener| Ok(accept_with(listener, flags)?));
    if !drains {
        return Event::Came(readable.attempt(attempt).await);
    }
    match attempt() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Event::Over,
        accepted => Event::Came(accepted),
    }
}

/// A connection that waits for a slot.
struct Waiting {
    stream: StdStream,
    /// The client, for messages about its errors.
    peer: Peer,
    /// Counts the connection for its address, if connections of an address are limited.
    counted: Option<Counted>,
}

/// A connection with a slot, to be served on any runtime.
pub(crate) struct Accepted {
    stream: StdStream,
    peer: Peer,
    slot: Slot,
}

impl Accepted {
    /// Serves the connection on the runtime that this function is called on.
    pub(crate) async fn serve(self, instance: Instance) {
        let Self { stream, peer, slot: Slot { closing, end } } = self;
        let served = match TcpStream::from_std(stream) {
            Ok(stream) => {
                let connection = instance.serve_on_tokio(stream, closing);
                visibility::connection_began(size_of_val(&*connection));
                connection.await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            peer.tell(&error);
        }
        drop(end);
    }

    /// Closes the connection, since it cannot be served.
    pub(crate) fn fail(self, error: &io::Error) {
        self.peer.tell(error);
    }
}

/// The slots of an acceptor.
struct Slots {
    /// Each slot has a receiver.
    taken: watch::Sender<()>,
    /// True once the acceptor drains.
    closing: watch::Sender<bool>,
    /// A slot has become free.
    ended: Arc<Notify>,
}

impl Slots {
    fn new() -> Self {
        let (taken, closing) = (watch::Sender::new(()), watch::Sender::new(false));
        Self { taken, closing, ended: Arc::default() }
    }

    fn take(&self, counted: Option<Counted>) -> Slot {
        let closing = Closing::new(self.closing.subscribe());
        let (ended, _taken) = (self.ended.clone(), self.taken.subscribe());
        Slot { closing, end: End { ended, _counted: counted, _taken } }
    }

    fn count(&self) -> usize {
        self.taken.receiver_count()
    }

    fn are_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Tells all connections to close, and connections of later slots too.
    fn close(&self) {
        self.closing.send_replace(true);
    }

    async fn all_ended(&self) {
        self.taken.closed().await;
    }
}

/// A slot, taken until its end is dropped.
struct Slot {
    closing: Closing,
    end: End,
}

/// Tells the acceptor, and the counters, that a connection has ended.
struct End {
    ended: Arc<Notify>,
    _counted: Option<Counted>,
    /// The slot is given back after the end has been counted.
    _taken: watch::Receiver<()>,
}

impl Drop for End {
    fn drop(&mut self) {
        visibility::connection_ended();
        self.ended.notify_one();
    }
}
