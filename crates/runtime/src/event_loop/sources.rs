//! The descriptors that a loop watches, and who waits for them.

use duality_poller::{Direction, Event, Token};
use slab::Slab;

use super::waker::TaskName;

/// One watched descriptor.
#[derive(Default)]
struct Source {
    reader: Side,
    writer: Side,
    /// The peer has closed, or the descriptor has failed: no edge may follow.
    hangup: bool,
    /// Who waits for it waits for a client.
    client: bool,
}

/// One direction of a descriptor.
#[derive(Default)]
struct Side {
    waiter: Option<TaskName>,
    /// The last attempt took all there was (or filled all there was room for), so the next one would
    /// block until an event says otherwise: it is not even tried.
    exhausted: bool,
}

impl Source {
    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Read => &mut self.reader,
            Direction::Write => &mut self.writer,
        }
    }
}

#[derive(Default)]
pub(crate) struct Sources {
    slab: Slab<Source>,
    /// How many waits are for clients.
    resting: usize,
}

impl Sources {
    /// Adds a descriptor; that of a `client` rests while a task waits for it.
    pub(crate) fn insert(&mut self, client: bool) -> Token {
        Token(self.slab.insert(Source { client, ..Source::default() }) as u32)
    }

    pub(crate) fn remove(&mut self, token: Token) {
        let source = self.slab.remove(token.0 as usize);
        if source.client {
            let waiters = [source.reader.waiter, source.writer.waiter];
            self.resting -= waiters.iter().flatten().count();
        }
    }

    /// How many descriptors are watched.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn resting(&self) -> usize {
        self.resting
    }

    #[inline]
    pub(crate) fn exhausted(&mut self, token: Token, direction: Direction) -> bool {
        self.slab[token.0 as usize].side(direction).exhausted
    }

    /// Notes that an attempt moved less than it could have.
    ///
    /// Sound on an edge-triggered poller because whatever arrives later is a new edge. A hang-up may
    /// have come together with the last data, in one edge that is gone, so after one every attempt is
    /// made.
    #[inline]
    pub(crate) fn exhaust(&mut self, token: Token, direction: Direction) {
        let source = &mut self.slab[token.0 as usize];
        source.side(direction).exhausted = !source.hangup;
    }

    #[inline]
    pub(crate) fn wait(&mut self, token: Token, direction: Direction, task: TaskName) {
        let source = &mut self.slab[token.0 as usize];
        let before = source.side(direction).waiter.replace(task);
        // Whoever gave up at a deadline is still noted, and counted.
        self.resting += usize::from(source.client && before.is_none());
    }

    /// Notes an event and returns the tasks to wake.
    #[inline]
    pub(crate) fn event(&mut self, event: &Event) -> [Option<TaskName>; 2] {
        // An event may be for a descriptor that was forgotten in this very round.
        let Some(source) = self.slab.get_mut(event.token.0 as usize) else { return [None, None] };
        source.hangup |= event.hangup;
        let mut woken = [None, None];
        if event.readable {
            source.reader.exhausted = false;
            woken[0] = source.reader.waiter.take();
        }
        if event.writable {
            source.writer.exhausted = false;
            woken[1] = source.writer.waiter.take();
        }
        if source.client {
            self.resting -= woken.iter().flatten().count();
        }
        woken
    }

    /// Every task that waits to read, for the drain.
    pub(crate) fn take_readers(&mut self) -> Vec<TaskName> {
        let mut readers = Vec::new();
        for (_, source) in &mut self.slab {
            if let Some(reader) = source.reader.waiter.take() {
                self.resting -= usize::from(source.client);
                readers.push(reader);
            }
        }
        readers
    }
}
