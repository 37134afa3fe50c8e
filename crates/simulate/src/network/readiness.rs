//! Which descriptors are ready, and what a host's loop is told of them.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use duality_poller::{Direction, Event, Token};

use super::{Armed, File, Network, SocketKind};
use crate::decisions::Kind;

const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

impl Network {
    /// A loop waits for a direction of a descriptor. Descriptors that are no sockets of ours, such
    /// as a loop's own, are not watched.
    pub(crate) fn arm(
        &mut self,
        descriptor: RawFd,
        queue: usize,
        token: Token,
        direction: Direction,
    ) {
        self.watch(descriptor, direction, Armed { queue, token, is_due: false, is_edge: false });
    }

    /// A queue of edges learns all changes of both directions.
    pub(crate) fn watch_edges(&mut self, descriptor: RawFd, queue: usize, token: Token) {
        for direction in BOTH {
            self.watch(descriptor, direction, Armed { queue, token, is_due: false, is_edge: true });
        }
    }

    fn watch(&mut self, descriptor: RawFd, direction: Direction, armed: Armed) {
        let Some(number) = self.files.get(&descriptor).copied() else { return };
        let Some(file) = self.file_mut(number, descriptor) else { return };
        // A descriptor may be in several queues, as in several epoll(7) descriptors.
        let all = &mut file.armed[direction as usize];
        if !all.iter().any(|other| other.queue == armed.queue) {
            all.push(armed);
        }
        self.look(number);
    }

    pub(crate) fn forget(&mut self, host: usize, queue: usize, token: Token) {
        // A thread of a host that has crashed still drops what it had.
        if let Some(due) = self.hosts[host].due.get_mut(queue) {
            due.retain(|(due, ..)| *due != token);
        }
    }

    /// Ends a queue's watch of a descriptor that stays open.
    pub(crate) fn disarm(&mut self, descriptor: RawFd, queue: usize, token: Token) {
        let Some(number) = self.files.get(&descriptor).copied() else { return };
        let Some(file) = self.file_mut(number, descriptor) else { return };
        for all in &mut file.armed {
            all.retain(|armed| armed.queue != queue || armed.token != token);
        }
    }

    /// A further queue of events of a host.
    pub(crate) fn add_queue(&mut self, host: usize) -> usize {
        self.hosts[host].due.push(VecDeque::new());
        self.hosts[host].due.len() - 1
    }

    fn file_mut(&mut self, number: u64, descriptor: RawFd) -> Option<&mut File> {
        let files = &mut self.sockets.get_mut(&number)?.files;
        files.iter_mut().find(|file| file.descriptor == descriptor)
    }

    pub(crate) fn is_ready(&self, number: u64, direction: Direction) -> bool {
        match self.sockets.get(&number).map(|socket| &socket.kind) {
            None => true,
            Some(SocketKind::Listener(listener)) => !listener.queue.is_empty() || listener.is_shut,
            Some(SocketKind::Datagrams(datagrams)) => {
                let has_input = !datagrams.received.is_empty() || datagrams.error.is_some();
                direction == Direction::Write || has_input
            }
            Some(SocketKind::Unix(unix)) => match direction {
                Direction::Read => unix.has_input(),
                Direction::Write => self.unix_has_room(number),
            },
            Some(SocketKind::Connection(connection)) => match direction {
                Direction::Read => connection.has_input(),
                Direction::Write => connection.has_room(self.profile.window),
            },
        }
    }

    /// Something has changed at a socket: what waits for it has an event.
    pub(super) fn look(&mut self, number: u64) {
        let ready = BOTH.map(|direction| self.is_ready(number, direction));
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        for file in &mut socket.files {
            for direction in BOTH {
                if !ready[direction as usize] {
                    continue;
                }
                for armed in &mut file.armed[direction as usize] {
                    let queues = &mut self.hosts[socket.host].due;
                    if !std::mem::replace(&mut armed.is_due, true)
                        && let Some(queue) = queues.get_mut(armed.queue)
                    {
                        queue.push_back((armed.token, direction, file.descriptor));
                    }
                }
            }
        }
    }

    pub(crate) fn has_events(&self, host: usize, queue: usize) -> bool {
        self.hosts[host].due.get(queue).is_some_and(|due| !due.is_empty())
    }

    /// The events that a queue of a host has now: some of those that are due, in some order.
    pub(crate) fn events(&mut self, host: usize, queue: usize, events: &mut Vec<Event>) {
        let count = self.hosts[host].due.get(queue).map_or(0, VecDeque::len);
        for left in (1..=count).rev() {
            let index = self.draw(Kind::EventOrder, left as u64) as usize;
            // Late ones go to the end, behind those that are left.
            let Some(due) = self.hosts[host].due[queue].remove(index) else { break };
            let is_last = left == 1 && events.is_empty();
            if !is_last && self.happens(Kind::LateEvent, self.profile.late_event) {
                self.counts.late_events += 1;
                self.hosts[host].due[queue].push_back(due);
                continue;
            }
            let (token, direction, descriptor) = due;
            self.told(descriptor, direction, queue);
            events.push(event(token, direction));
        }
        if self.happens(Kind::Spurious, self.profile.spurious) {
            self.add_spurious((host, queue), events);
        }
    }

    fn add_spurious(&mut self, (host, queue): (usize, usize), events: &mut Vec<Event>) {
        let own = self.sockets.values().filter(|socket| socket.host == host);
        let waiting: Vec<(Token, Direction, RawFd)> = own
            .flat_map(|socket| &socket.files)
            .flat_map(|file| BOTH.map(|direction| (file, direction)))
            .filter_map(|(file, direction)| {
                let mut all = file.armed[direction as usize].iter();
                let armed = all.find(|armed| armed.queue == queue && !armed.is_due)?;
                Some((armed.token, direction, file.descriptor))
            })
            .collect();
        if waiting.is_empty() {
            return;
        }
        let index = self.draw(Kind::Spurious, waiting.len() as u64) as usize;
        let (token, direction, descriptor) = waiting[index];
        self.counts.spurious += 1;
        self.tell(|net| format!("! {} wakes for nothing", net.name(host)));
        self.told(descriptor, direction, queue);
        events.push(event(token, direction));
    }

    /// The queue has been told of an event: only a queue of edges goes on watching.
    fn told(&mut self, descriptor: RawFd, direction: Direction, queue: usize) {
        let Some(number) = self.files.get(&descriptor).copied() else { return };
        let Some(file) = self.file_mut(number, descriptor) else { return };
        let all = &mut file.armed[direction as usize];
        all.iter_mut().filter(|armed| armed.queue == queue).for_each(|armed| armed.is_due = false);
        all.retain(|armed| armed.queue != queue || armed.is_edge);
    }
}

fn event(token: Token, direction: Direction) -> Event {
    let is_read = direction == Direction::Read;
    Event { token, readable: is_read, writable: !is_read, hangup: true }
}
