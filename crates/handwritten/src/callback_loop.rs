//! The loop that calls the machines: epoll, timers, and a slab of connections.
//!
//! The loop and its parts belong to one kernel thread. When the loop finds an event, it calls the
//! machine directly, and the machine goes on until it has to wait. So there is no queue of ready
//! tasks. The events of one round are all the work under way. So this loop needs no accept queue,
//! unlike the runtime's loop.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use duality_architectures::common::addresses::{Addresses, Counted};
use duality_architectures::common::admission::Admission;
use duality_architectures::common::pressure::{PAUSE, Pressure};
use duality_architectures::common::refusals::{self, Reason};
use duality_architectures::common::wait_queue::{Limit, MOST_REFUSALS, Turn, WaitQueue};
use duality_poller::{Direction, Event, Kind, Poller, Timers, Token};
use duality_runtime::drain;
use duality_runtime::handler::{Connections, Peer};
use duality_runtime::net::TcpListener;
use duality_runtime::task::submit;
use duality_runtime::wakeup::Wakeup;
use rustix::io::ioctl_fionbio;
use rustix::net::{SocketFlags, accept_with, getpeername};
use slab::Slab;

use crate::attempts::{Attempts, BUDGET, Readiness};
use crate::{Next, StateMachine, Why};

const WAKEUP: Token = Token(0);
const LISTENER: Token = Token(1);
/// The tokens of connections begin here.
const FIRST: u32 = 2;

/// The loop of one kernel thread.
pub(crate) struct CallbackLoop<M: StateMachine> {
    common: M::Common,
    addresses: Addresses,
    /// Connections that wait for a slot.
    line: WaitQueue<Accepted>,
    /// The number of connections that are being refused. They have no slot.
    refusing: usize,
    poller: Box<dyn Poller>,
    timers: Timers,
    wakeup: Wakeup,
    listener: Option<Listener>,
    connections: Slab<Connection<M>>,
    /// Machines that used up their turn and have more to do.
    cut_short: Vec<usize>,
    /// The results of helper threads, each with its connection. `None` if the helper panicked.
    found: FoundBox<M>,
    now: Instant,
    draining: bool,
    /// The time at which a drain ends new connections that have sent nothing.
    first_bytes_until: Instant,
}

type FoundBox<M> = Arc<Mutex<Vec<(usize, Option<<M as StateMachine>::Found>)>>>;

struct Listener {
    socket: TcpListener,
    admission: Admission,
    pressure: Pressure,
    /// Whether an attempt to accept is worth its system call.
    ready: bool,
    /// Whether a resource for a connection was lacking at the last attempt.
    lacking: bool,
}

impl Listener {
    fn accept(&mut self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        self.socket.accept_before_drain(|listener| Ok(accept_with(listener, flags)?))
    }
}

/// An accepted connection.
struct Accepted {
    socket: OwnedFd,
    /// Counts the connection for its address, if addresses are limited.
    counted: Option<Box<Counted>>,
}

struct Connection<M> {
    socket: OwnedFd,
    _counted: Option<Box<Counted>>,
    readiness: Readiness,
    waits_for: WaitsFor,
    is_refused: bool,
    /// The address of its client, for the message about its failure.
    peer: Peer,
    machine: M,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    Read,
    Write,
    Helper,
    /// The connection's next turn.
    Turn,
}

impl<M: StateMachine> CallbackLoop<M> {
    /// Opens the resources that the loop needs.
    pub(crate) fn open(common: M::Common, limit: Limit) -> io::Result<Self> {
        let (mut poller, wakeup) = (Kind::Epoll.open()?, Wakeup::new()?);
        poller.arm(wakeup.as_fd(), WAKEUP, Direction::Read)?;
        let now = Instant::now();
        Ok(Self {
            common,
            addresses: limit.addresses(),
            line: WaitQueue::new(limit),
            refusing: 0,
            poller,
            timers: Timers::new(now),
            wakeup,
            listener: None,
            connections: Slab::new(),
            cut_short: Vec::new(),
            found: Arc::default(),
            now,
            draining: false,
            first_bytes_until: now,
        })
    }

    /// Serves until the process drains and the last connection has ended.
    pub(crate) fn run(mut self, socket: TcpListener, admission: Admission) {
        ioctl_fionbio(&socket, true).expect("a socket can be made not to block");
        let pressure = Pressure::new(&Connections::default());
        self.listener = Some(Listener { socket, admission, pressure, ready: true, lacking: false });
        let (mut events, mut fired) = (Vec::with_capacity(256), Vec::new());
        // A drain that was requested before the loop had its wakeup has woken nothing.
        if drain::requested_before_wakeup() {
            self.drain();
        }
        loop {
            self.accept();
            self.give_turns();
            self.attend_line();
            if self.listener.is_none() && self.connections.is_empty() && self.line.is_empty() {
                return;
            }
            self.await_events(&mut events);
            for event in &events {
                self.dispatch(event);
            }
            self.timers.expire(self.now, &mut fired);
            for id in fired.drain(..) {
                self.time_out(id);
            }
            if drain::requested() && !self.draining {
                self.drain();
            }
        }
    }

    fn await_events(&mut self, events: &mut Vec<Event>) {
        let accepting = self.listener.as_ref().is_some_and(|listener| listener.ready);
        let timeout = if accepting && self.line.has_room() || !self.cut_short.is_empty() {
            Some(Duration::ZERO)
        } else {
            // If there are as many refusals as possible, one of them must end first.
            let end = self.line.end_of_patience().filter(|_| self.refusing < MOST_REFUSALS);
            let expiry = [self.timers.next_expiry(), end].into_iter().flatten().min();
            expiry.map(|expiry| expiry.saturating_duration_since(Instant::now()))
        };
        let waited = self.poller.wait(timeout, events);
        waited.expect("a poller fails only when it is used wrongly");
        self.now = Instant::now();
    }

    fn dispatch(&mut self, event: &Event) {
        match event.token {
            WAKEUP => self.take_found(),
            LISTENER => {
                if let Some(listener) = &mut self.listener {
                    listener.ready |= !listener.lacking;
                }
            }
            Token(token) => {
                let key = (token - FIRST) as usize;
                let Some(connection) = self.connections.get_mut(key) else { return };
                connection.readiness.note(event);
                let awaited = match connection.waits_for {
                    WaitsFor::Read => event.readable,
                    WaitsFor::Write => event.writable,
                    WaitsFor::Helper | WaitsFor::Turn => false,
                };
                if awaited {
                    self.wake(key, Why::Ready);
                }
            }
        }
    }

    fn time_out(&mut self, id: u32) {
        match Token(id) {
            LISTENER => return self.try_again(),
            // The drain's timer has expired.
            WAKEUP => return self.wake_readers(),
            _ => {}
        }
        let key = (id - FIRST) as usize;
        let Some(connection) = self.connections.get(key) else { return };
        if matches!(connection.waits_for, WaitsFor::Read | WaitsFor::Write) {
            self.wake(key, Why::TimedOut);
        }
    }

    // Accepting.

    fn accept(&mut self) {
        for _ in 0..BUDGET {
            let may_accept = |listener: &&mut Listener| listener.ready && self.line.has_room();
            let Some(listener) = self.listener.as_mut().filter(may_accept) else { return };
            let held = self.connections.len() + self.line.len();
            let admitted = listener.admission.check(held);
            match admitted.and_then(|()| listener.accept()) {
                Ok(socket) => {
                    listener.pressure.relieved();
                    self.arrive(socket);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.draining => {
                    return self.close_listener();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.await_clients(),
                Err(error) => {
                    listener.lacking = listener.pressure.is_lack("accept", &error);
                    if listener.lacking {
                        listener.ready = false;
                        self.timers.set(LISTENER.0, self.now + PAUSE);
                    }
                }
            }
        }
    }

    fn await_clients(&mut self) {
        let Some(listener) = &mut self.listener else { return };
        listener.ready = false;
        let armed = self.poller.arm(listener.socket.as_fd(), LISTENER, Direction::Read);
        if let Err(error) = armed {
            listener.lacking = listener.pressure.is_lack("epoll", &error);
            self.timers.set(LISTENER.0, self.now + PAUSE);
        }
    }

    /// Tries to accept again, after a resource was lacking.
    fn try_again(&mut self) {
        if let Some(listener) = &mut self.listener
            && std::mem::take(&mut listener.lacking)
        {
            listener.ready = true;
        }
    }

    /// Begins an accepted connection, queues it for a slot, or refuses it because of its address.
    fn arrive(&mut self, socket: OwnedFd) {
        let counted = match self.count(&socket) {
            Ok(counted) => counted.map(Box::new),
            Err(reason) => {
                refusals::count(reason);
                if self.refusing < MOST_REFUSALS {
                    self.refuse(Accepted { socket, counted: None });
                }
                return;
            }
        };
        let accepted = Accepted { socket, counted };
        if self.line.passes(self.served()) {
            self.begin(accepted, M::accepted(&self.common), false);
        } else {
            self.line.join(accepted, self.now);
        }
    }

    fn count(&self, socket: &OwnedFd) -> Result<Option<Counted>, Reason> {
        if !self.addresses.are_limited() {
            return Ok(None);
        }
        // A client that has reset the connection no longer has an address.
        let peer = getpeername(socket).ok().flatten();
        let address = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        address.map_or(Ok(None), |address| self.addresses.count(address.ip()))
    }

    fn refuse(&mut self, accepted: Accepted) {
        if let Some(machine) = M::refused(&self.common) {
            self.begin(accepted, machine, true);
        }
    }

    /// Begins waiting connections for which there are slots now, and refuses those that have waited
    /// too long.
    fn attend_line(&mut self) {
        while !self.line.is_empty() {
            let may_refuse = self.refusing < MOST_REFUSALS;
            match self.line.turn(self.served(), may_refuse, self.now) {
                Turn::Serve(accepted) => self.begin(accepted, M::accepted(&self.common), false),
                Turn::Refuse(accepted) => {
                    refusals::count(Reason::Full);
                    self.refuse(accepted);
                }
                Turn::Wait => return,
            }
        }
    }

    /// How many connections have a slot.
    fn served(&self) -> usize {
        self.connections.len() - self.refusing
    }

    fn begin(&mut self, accepted: Accepted, machine: M, is_refused: bool) {
        self.refusing += usize::from(is_refused);
        let Accepted { socket, counted: _counted } = accepted;
        let (readiness, waits_for) = (Readiness::new(), WaitsFor::Turn);
        let peer = Peer::of(socket.as_fd(), None);
        let connection =
            Connection { socket, _counted, readiness, waits_for, is_refused, peer, machine };
        let key = self.connections.insert(connection);
        self.wake(key, Why::Ready);
    }

    // A connection's turn.

    /// Calls the machines that were cut short.
    fn give_turns(&mut self) {
        let waiting = self.cut_short.len();
        for index in 0..waiting {
            self.wake(self.cut_short[index], Why::Ready);
        }
        // The calls may have added more machines.
        self.cut_short.drain(..waiting);
    }

    /// Calls a machine, and arranges its next wait.
    fn wake(&mut self, key: usize, why: Why<M::Found>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Connection { socket, readiness, machine, .. } = connection;
        let is_awaited = readiness.is_new() && self.now < self.first_bytes_until;
        let draining = self.draining && !is_awaited;
        let mut attempts = Attempts::new(socket.as_fd(), readiness, draining, self.now);
        // The panic hook reports the panic. This connection closes, and the others go on.
        let call = || machine.wake(why, &mut attempts, &mut self.common);
        let wait = catch_unwind(AssertUnwindSafe(call)).unwrap_or(Next::End);
        let cut_short = attempts.was_cut_short();
        match wait {
            Next::End => self.end(key),
            Next::Failed(error) => {
                connection.peer.tell(&error);
                self.end(key);
            }
            Next::Helper(job) => self.have_helped(key, job),
            Next::Read(_) | Next::Write(_) if cut_short => {
                connection.waits_for = WaitsFor::Turn;
                self.cut_short.push(key);
            }
            Next::Read(deadline) => self.rest(key, Direction::Read, deadline),
            Next::Write(deadline) => self.rest(key, Direction::Write, deadline),
        }
    }

    fn rest(&mut self, key: usize, direction: Direction, deadline: Option<Instant>) {
        let connection = &mut self.connections[key];
        connection.waits_for = match direction {
            Direction::Read => WaitsFor::Read,
            Direction::Write => WaitsFor::Write,
        };
        let token = token_of(key);
        match deadline {
            Some(deadline) => self.timers.set(token.0, deadline),
            None => self.timers.clear(token.0),
        }
        if self.poller.arm(connection.socket.as_fd(), token, direction).is_err() {
            self.end(key);
        }
    }

    fn end(&mut self, key: usize) {
        let connection = self.connections.remove(key);
        self.refusing -= usize::from(connection.is_refused);
        let token = token_of(key);
        self.timers.clear(token.0);
        self.poller.forget(connection.socket.as_fd(), token);
        drop(connection);
        self.try_again();
    }

    // Helper threads, and other causes that wake the loop.

    fn have_helped(&mut self, key: usize, job: Box<dyn FnOnce() -> M::Found + Send>) {
        self.connections[key].waits_for = WaitsFor::Helper;
        let (found, wakeup) = (self.found.clone(), self.wakeup.sender());
        submit(Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(job)).ok();
            found.lock().unwrap_or_else(PoisonError::into_inner).push((key, outcome));
            wakeup.send();
        }));
    }

    fn take_found(&mut self) {
        self.wakeup.clear();
        let armed = self.poller.arm(self.wakeup.as_fd(), WAKEUP, Direction::Read);
        armed.expect("the wakeup stays registered for the life of the loop");
        let found = std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        for (key, outcome) in found {
            match outcome {
                Some(outcome) => self.wake(key, Why::Found(outcome)),
                None => self.end(key),
            }
        }
    }

    fn close_listener(&mut self) {
        if let Some(Listener { socket, .. }) = self.listener.take() {
            self.poller.forget(socket.as_fd(), LISTENER);
        }
    }

    /// Accepts only connections that have come already. Machines that wait for input see its end.
    fn drain(&mut self) {
        self.draining = true;
        self.first_bytes_until = self.now + drain::FIRST_BYTES;
        self.timers.set(WAKEUP.0, self.first_bytes_until);
        if let Some(listener) = &mut self.listener {
            listener.ready = true;
        }
        self.wake_readers();
    }

    /// Wakes connections that wait for their client, so that they notice the drain.
    fn wake_readers(&mut self) {
        let waits_for_input = |connection: &Connection<M>| connection.waits_for == WaitsFor::Read;
        let readers: Vec<usize> = (self.connections.iter())
            .filter(|(_, connection)| waits_for_input(connection))
            .map(|(key, _)| key)
            .collect();
        for key in readers {
            self.wake(key, Why::Ready);
        }
    }
}

fn token_of(key: usize) -> Token {
    Token(u32::try_from(key).expect("fewer than 2^32 connections") + FIRST)
}
