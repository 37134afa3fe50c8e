//! The network of a model: connections between the loops of servers and clients that are no hosts.
//!
//! Nothing fails here, no packet is lost, and no buffer is full. A loop has a listener of its own.
//! What its tasks do in a turn is counted, so that the turn can be given a price.

use std::collections::VecDeque;
use std::io;

use duality_poller::{Direction, Event, Token};

use super::exchange::{Exchange, Progress, Reply};

/// Listeners are numbered from here on, one for each loop. Connections are below.
const LISTENERS: u64 = 1 << 63;

/// What a turn did, and what came of it for clients.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Attempts that moved bytes, or accepted.
    pub(super) attempts: u64,
    /// Attempts that would have blocked.
    pub(super) in_vain: u64,
    pub(super) registrations: u64,
    pub(super) accepted: u64,
    /// Requests that the service has worked for.
    pub(super) works: u64,
    pub(super) outcomes: Vec<Outcome>,
}

/// What a client learns when the turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) client: u32,
    pub(super) connection: u64,
    /// When the request was at the server. `None` if the connection has closed without a reply.
    pub(super) replied_to: Option<u64>,
}

struct Connection {
    number: u64,
    place: usize,
    client: u32,
    token: Option<Token>,
    /// Whether a task waits to read.
    waits: bool,
    is_registered: bool,
    /// The last read took all that had come. So a loop makes no further attempt before an event.
    is_exhausted: bool,
    /// How much of the request has been read. `None` while no request has come.
    read: Option<usize>,
    /// When the request that is not answered yet came.
    asked_at: Option<u64>,
    /// Whether the service's work for the request has not been priced yet.
    owes_work: bool,
    /// The client has closed.
    has_ended: bool,
    /// The server has said its end.
    has_said_end: bool,
    progress: Progress,
}

/// A loop's side of the network.
#[derive(Default)]
struct Side {
    /// Connections that wait to be accepted.
    queue: VecDeque<u64>,
    listener: Option<Token>,
    listener_waits: bool,
    /// Before this time, the acceptor is still busy with the last connections.
    accepts_from: u64,
    open: usize,
    /// The sockets that have an event.
    due: VecDeque<u64>,
    /// The socket of the last attempt, if it would have blocked.
    last_in_vain: Option<u64>,
    /// Whether the loop asks its poller in this step.
    polls: bool,
    turn: Turn,
}

/// See the [module](self).
pub(super) struct Network {
    /// Nanoseconds since the beginning.
    pub(super) now: u64,
    exchange: Exchange,
    /// The most connections that are open at a loop.
    places: usize,
    sides: Vec<Side>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    numbers: u64,
    /// The first reply that no client understands.
    pub(super) wrong: Option<String>,
}

/// The slot of a connection. Above it, a number has how many were made before.
const SLOTS: u32 = 28;

impl Network {
    pub(super) fn new(exchange: Exchange, loops: usize, places: usize) -> Self {
        Self {
            now: 0,
            exchange,
            places,
            sides: (0..loops).map(|_| Side::default()).collect(),
            connections: Vec::new(),
            free: Vec::new(),
            numbers: 0,
            wrong: None,
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Connection> {
        let slot = (number & ((1 << SLOTS) - 1)) as usize;
        self.connections.get_mut(slot)?.as_mut().filter(|connection| connection.number == number)
    }

    fn known(&mut self, number: u64) -> io::Result<&mut Connection> {
        self.find(number).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    // The clients' calls.

    /// A client's connection reaches a loop, with its request.
    pub(super) fn connect(&mut self, place: usize, client: u32) -> u64 {
        let slot = self.free.pop().unwrap_or(self.connections.len());
        self.numbers += 1;
        let number = (self.numbers << SLOTS) | slot as u64;
        let has_request = !self.exchange.request().is_empty();
        let connection = Connection {
            number,
            place,
            client,
            token: None,
            waits: false,
            is_registered: false,
            is_exhausted: false,
            read: has_request.then_some(0),
            asked_at: Some(self.now),
            owes_work: true,
            has_ended: false,
            has_said_end: false,
            progress: Progress::default(),
        };
        match self.connections.get_mut(slot) {
            Some(free) => *free = Some(connection),
            None => self.connections.push(Some(connection)),
        }
        self.sides[place].queue.push_back(number);
        self.look_at_listener(place);
        number
    }

    /// A request reaches the server. Returns the loop, unless the connection is gone.
    pub(super) fn ask(&mut self, number: u64) -> Option<usize> {
        let now = self.now;
        let connection = self.find(number)?;
        connection.read = Some(0);
        (connection.asked_at, connection.owes_work) = (Some(now), true);
        self.make_ready(number)
    }

    /// The client's end reaches the server.
    pub(super) fn hang_up(&mut self, number: u64) -> Option<usize> {
        self.find(number)?.has_ended = true;
        self.make_ready(number)
    }

    fn make_ready(&mut self, number: u64) -> Option<usize> {
        let connection = self.find(number)?;
        connection.is_exhausted = false;
        let place = connection.place;
        if std::mem::take(&mut connection.waits) {
            self.sides[place].due.push_back(number);
        }
        Some(place)
    }

    // The driver's calls.

    /// Begins a step of a loop.
    pub(super) fn begin(&mut self, place: usize, polls: bool) {
        let side = &mut self.sides[place];
        (side.polls, side.last_in_vain) = (polls, None);
    }

    /// What the step did. `outcomes` of the last one are given back, to be used again.
    pub(super) fn end(&mut self, place: usize, mut outcomes: Vec<Outcome>) -> Turn {
        outcomes.clear();
        let empty = Turn { outcomes, ..Turn::default() };
        std::mem::replace(&mut self.sides[place].turn, empty)
    }

    /// Has the acceptor be busy until then.
    pub(super) fn accepts_from(&mut self, place: usize, time: u64) {
        self.sides[place].accepts_from = time;
    }

    /// How many sockets have an event that the loop has not learnt.
    pub(super) fn due(&self, place: usize) -> usize {
        self.sides[place].due.len()
    }

    /// Has the acceptor go on, if a connection waits and may be accepted.
    pub(super) fn look_at_listener(&mut self, place: usize) {
        let can = self.can_accept(place);
        let side = &mut self.sides[place];
        if can && std::mem::take(&mut side.listener_waits) {
            side.due.push_back(LISTENERS | place as u64);
        }
    }

    fn can_accept(&self, place: usize) -> bool {
        let side = &self.sides[place];
        self.now >= side.accepts_from && side.open < self.places && !side.queue.is_empty()
    }

    // The calls of a loop's poller.

    /// A task waits for the socket of the last attempt.
    pub(super) fn arm(&mut self, place: usize, token: Token, direction: Direction) {
        let Some(number) = self.sides[place].last_in_vain.take() else { return };
        if number & LISTENERS != 0 {
            let side = &mut self.sides[place];
            (side.listener, side.listener_waits) = (Some(token), true);
            return self.look_at_listener(place);
        }
        let Some(connection) = self.find(number) else { return };
        if direction == Direction::Write {
            return; // No write waits.
        }
        let is_new = !std::mem::replace(&mut connection.is_registered, true);
        (connection.token, connection.waits) = (Some(token), true);
        self.sides[place].turn.registrations += u64::from(is_new);
    }

    pub(super) fn events(&mut self, place: usize, events: &mut Vec<Event>) {
        if !self.sides[place].polls {
            return;
        }
        while let Some(number) = self.sides[place].due.pop_front() {
            let token = match number & LISTENERS {
                0 => self.find(number).and_then(|connection| connection.token),
                _ => self.sides[place].listener,
            };
            let event = |token| Event { token, readable: true, writable: false, hangup: false };
            events.extend(token.map(event));
        }
    }

    // The system calls of a loop's tasks.

    pub(super) fn listener(place: usize) -> u64 {
        LISTENERS | place as u64
    }

    fn in_vain<T>(&mut self, place: usize, number: u64, is_made: bool) -> io::Result<T> {
        let side = &mut self.sides[place];
        side.last_in_vain = Some(number);
        side.turn.in_vain += u64::from(is_made);
        Err(io::ErrorKind::WouldBlock.into())
    }

    pub(super) fn accept(&mut self, place: usize) -> io::Result<u64> {
        if !self.can_accept(place) {
            return self.in_vain(place, LISTENERS | place as u64, true);
        }
        let side = &mut self.sides[place];
        side.open += 1;
        side.turn.attempts += 1;
        side.turn.accepted += 1;
        side.queue.pop_front().ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    pub(super) fn queued(&self, place: usize) -> usize {
        self.sides[place].queue.len()
    }

    /// Reads as many bytes of the request as there is room for, by `copy`.
    pub(super) fn receive(
        &mut self,
        number: u64,
        room: usize,
        takes: bool,
        copy: impl FnOnce(&[u8]),
    ) -> io::Result<usize> {
        let exchange = self.exchange.clone();
        let connection = self.known(number)?;
        let place = connection.place;
        let read = connection.read.unwrap_or(exchange.request().len());
        let rest = &exchange.request()[read..];
        let count = rest.len().min(room);
        if count == 0 && !connection.has_ended && room > 0 {
            let is_made = !connection.is_exhausted;
            return self.in_vain(place, number, is_made);
        }
        copy(&rest[..count]);
        if takes {
            connection.read = Some(read + count);
            connection.is_exhausted = count > 0 && count < room;
        }
        self.sides[place].turn.attempts += 1;
        Ok(count)
    }

    pub(super) fn has_input(&mut self, number: u64) -> bool {
        let length = self.exchange.request().len();
        self.find(number).is_none_or(|connection| {
            connection.has_ended || connection.read.is_some_and(|read| read < length)
        })
    }

    pub(super) fn has_ended(&mut self, number: u64) -> bool {
        self.find(number).is_none_or(|connection| connection.has_ended)
    }

    pub(super) fn client(&mut self, number: u64) -> Option<u32> {
        self.find(number).map(|connection| connection.client)
    }

    pub(super) fn send(&mut self, number: u64, bytes: &[u8]) -> io::Result<usize> {
        let exchange = self.exchange.clone();
        let connection = self.known(number)?;
        let place = connection.place;
        let works = std::mem::take(&mut connection.owes_work);
        let reply = exchange.take(&mut connection.progress, bytes);
        let turn = &mut self.sides[place].turn;
        turn.attempts += 1;
        turn.works += u64::from(works);
        match reply {
            Reply::Whole => self.tell(number),
            Reply::Part => {}
            Reply::Wrong => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
                self.wrong.get_or_insert(text);
            }
        }
        Ok(bytes.len())
    }

    /// The server ends its side.
    pub(super) fn say_end(&mut self, number: u64) {
        let exchange = self.exchange.clone();
        let Some(connection) = self.find(number) else { return };
        if std::mem::replace(&mut connection.has_said_end, true) {
            return;
        }
        if exchange.end(&connection.progress) == Reply::Whole {
            return self.tell(number);
        }
        let (place, client) = (connection.place, connection.client);
        let closed = Outcome { client, connection: number, replied_to: None };
        self.sides[place].turn.outcomes.push(closed);
    }

    /// The whole reply has been sent.
    fn tell(&mut self, number: u64) {
        let Some(connection) = self.find(number) else { return };
        let (place, client) = (connection.place, connection.client);
        let replied_to = connection.asked_at.take();
        if replied_to.is_some() {
            let outcome = Outcome { client, connection: number, replied_to };
            self.sides[place].turn.outcomes.push(outcome);
        }
    }

    pub(super) fn close(&mut self, number: u64) {
        if number & LISTENERS != 0 {
            return;
        }
        self.say_end(number);
        let Some(connection) = self.find(number) else { return };
        let place = connection.place;
        let slot = (number & ((1 << SLOTS) - 1)) as usize;
        self.connections[slot] = None;
        self.free.push(slot);
        self.sides[place].open -= 1;
        self.look_at_listener(place);
    }
}
