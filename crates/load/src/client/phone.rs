//! The client of `phone`: add an entry, and look it up at once.
//!
//! On a persistent connection, every second request asks for the entry that the request before has
//! added. If the connection is lost in between, an acknowledged entry is looked up on a new
//! connection. The entry must be there even if the server was killed. A connection for one request
//! makes an `ADD`, as in Demsky's measurements (2001).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duality_runtime::net::TcpStream;

use super::{Entry, Protocol};
use crate::announce::EdgeAnnouncer;
use crate::crowd::Question;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern;
use crate::request::line::Lines;
use crate::request::{Client, Reply, send_all};

/// The longest line that counts as a reply. The protocol's longest has some 110 bytes.
const LONGEST_LINE: usize = 256;

/// The reply of a server without its store. The connection stays open.
const STORE_UNAVAILABLE: &[u8] = b"ERROR the store is unavailable";

pub(crate) static ENTRY: Entry = Entry::plain("phone", |_| Arc::new(Entries));

/// Add an entry and look it up again, in turn. Without keep-alive, only add.
#[derive(Debug)]
struct Entries;

impl Protocol for Entries {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn question(&self) -> Option<Question> {
        Some(Question::line(b"FIND Nobody\n"))
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        Box::pin(pattern::load(engine, Phone::new(engine.options.keep_alive), edges))
    }
}

/// The client on one connection.
struct Phone {
    keep_alive: bool,
    /// The index of the client's connection in the load.
    number: u64,
    connections: Arc<AtomicU64>,
    /// The number of finished entries, which is the number of the current entry.
    count: u64,
    /// Whether the current entry was acknowledged, and must now be looked up.
    added: bool,
    /// The reply that is due.
    expected: String,
    lines: Lines,
}

impl Phone {
    fn new(keep_alive: bool) -> Self {
        Self {
            keep_alive,
            number: 0,
            connections: Arc::new(AtomicU64::new(1)),
            count: 0,
            added: false,
            expected: String::new(),
            lines: Lines::new(LONGEST_LINE),
        }
    }

    /// The current entry: a unique name, and a number that follows from the name.
    fn entry(&self) -> (String, String) {
        let (process, Self { number, count, .. }) = (std::process::id(), self);
        // The name goes beyond ASCII, as names may.
        let name = format!("Zoë-{process}-{number}-{count}");
        (name, format!("+{process}({number})-{}.0", count % 10_000_000_000))
    }
}

impl Client for Phone {
    fn connected(&mut self) {
        self.lines.clear();
    }

    async fn send(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        let (name, number) = self.entry();
        let request;
        (request, self.expected) = if self.added {
            (format!("FIND {name}\n"), format!("FOUND {name} {number}"))
        } else {
            (format!("ADD {name} {number}\n"), format!("ADDED {name} {number}"))
        };
        send_all(stream, request.as_bytes()).await
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let line = self.lines.only(stream).await?;
        if line == STORE_UNAVAILABLE {
            return Err(Failure::StoreUnavailable);
        }
        let right = line == self.expected.as_bytes();
        let bytes = line.len() as u64 + 1;
        // The next request is about this entry only if the entry can still be found. A wrong answer
        // is counted once.
        self.added = right && self.keep_alive && !self.added;
        self.count += u64::from(!self.added);
        if !right {
            return Err(Failure::WrongBytes("it is not the entry that was added"));
        }
        Ok(Reply::at_once(bytes, true))
    }
}

impl Clone for Phone {
    fn clone(&self) -> Self {
        Self {
            keep_alive: self.keep_alive,
            number: self.connections.fetch_add(1, Ordering::Relaxed),
            connections: self.connections.clone(),
            count: 0,
            added: false,
            expected: String::new(),
            lines: self.lines.fresh(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_ones_that_the_protocol_allows_and_all_differ() {
        let first = Phone::new(true);
        let mut last = first.clone();
        last.count = u64::MAX;
        last.number = 10_000_000;
        let mut names = Vec::new();
        for phone in [first.clone(), first, last] {
            let (name, number) = phone.entry();
            assert!(name.len() <= 64 && !name.contains(' '), "{name}");
            assert!(number.len() <= 32, "{number}");
            assert!(number.chars().all(|c| "0123456789+-().".contains(c)), "{number}");
            names.push(name);
        }
        names.dedup();
        assert_eq!(names.len(), 3);
    }
}
