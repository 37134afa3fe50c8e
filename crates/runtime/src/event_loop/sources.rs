//! The descriptors that a loop watches, and the tasks that wait for them.

use duality_poller::{Direction, Event, Token};
use slab::Slab;

use crate::remote::TaskName;

/// One watched descriptor. The first item of each pair is for reading, the second for writing.
#[derive(Default)]
struct Source {
    waiters: [Option<TaskName>; 2],
    /// The last attempt took all bytes, or filled all room. So the next attempt would block until
    /// an event comes, and is not even made.
    exhausted: [bool; 2],
    /// The peer has closed, or the descriptor has failed: no edge may follow.
    hangup: bool,
    /// The descriptor is a client's connection, so a task that waits for it waits for a client.
    client: bool,
}

const READ: usize = Direction::Read as usize;
const WRITE: usize = Direction::Write as usize;

#[derive(Default)]
pub(crate) struct Sources {
    slab: Slab<Source>,
    /// The number of waits for clients.
    resting: usize,
}

impl Sources {
    /// Adds a descriptor. A `client`'s descriptor rests while a task waits for it.
    pub(crate) fn insert(&mut self, client: bool) -> Token {
        Token(self.slab.insert(Source { client, ..Source::default() }) as u32)
    }

    pub(crate) fn remove(&mut self, token: Token) {
        let source = self.slab.remove(token.0 as usize);
        if source.client {
            self.resting -= source.waiters.iter().flatten().count();
        }
    }

    /// The number of watched descriptors.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn resting(&self) -> usize {
        self.resting
    }

    #[inline]
    pub(crate) fn exhausted(&self, token: Token, direction: Direction) -> bool {
        self.slab[token.0 as usize].exhausted[direction as usize]
    }

    /// Notes that an attempt moved less than it could have.
    ///
    /// Sound on an edge-triggered poller because whatever arrives later is a new edge. But a
    /// hang-up and the last data may have come in one edge, which is gone. So after a hang-up,
    /// every attempt is made.
    #[inline]
    pub(crate) fn exhaust(&mut self, token: Token, direction: Direction) {
        let source = &mut self.slab[token.0 as usize];
        source.exhausted[direction as usize] = !source.hangup;
    }

    #[inline]
    pub(crate) fn wait(&mut self, token: Token, direction: Direction, task: TaskName) {
        let source = &mut self.slab[token.0 as usize];
        let before = source.waiters[direction as usize].replace(task);
        // A task that gave up at a deadline is still in the list and the count.
        self.resting += usize::from(source.client && before.is_none());
    }

    pub(crate) fn waiter(&self, token: Token, direction: Direction) -> Option<TaskName> {
        self.slab[token.0 as usize].waiters[direction as usize]
    }

    /// Notes events and adds the tasks to wake to `woken`.
    ///
    /// Notes all events before any task is woken. The entries of a thousand descriptors are in no
    /// near cache. But the processor fetches several at a time as long as no other work comes in
    /// between.
    pub(crate) fn note(&mut self, events: &[Event], woken: &mut Vec<TaskName>) {
        for event in events {
            // An event may be for a descriptor that was forgotten in the same round.
            let Some(source) = self.slab.get_mut(event.token.0 as usize) else { continue };
            source.hangup |= event.hangup;
            let before = woken.len();
            for (direction, is_ready) in [(READ, event.readable), (WRITE, event.writable)] {
                if is_ready {
                    source.exhausted[direction] = false;
                    woken.extend(source.waiters[direction].take());
                }
            }
            if source.client {
                self.resting -= woken.len() - before;
            }
        }
    }

    /// Takes every task that waits to read, for a drain.
    pub(crate) fn take_readers(&mut self) -> Vec<TaskName> {
        let mut readers = Vec::new();
        for (_, source) in &mut self.slab {
            if let Some(reader) = source.waiters[READ].take() {
                self.resting -= usize::from(source.client);
                readers.push(reader);
            }
        }
        readers
    }
}
