//! The client of `blocks`: eight random bytes, and one byte back. Overlapping requests change what
//! others read, so the value of the byte is unknown. The client checks that there is exactly one
//! byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use duality_runtime::net::TcpStream;

use super::{Entry, Protocol};
use crate::announce::EdgeAnnouncer;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern;
use crate::random::SplitMix64;
use crate::request::{Client, Reply, expect_end, read_more, send_all};

pub(crate) static ENTRY: Entry = Entry::plain("blocks", |_| Arc::new(Offsets));

/// Asks for bytes at random offsets.
#[derive(Debug)]
struct Offsets;

impl Protocol for Offsets {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn is_persistent(&self) -> bool {
        false
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        Box::pin(pattern::load(engine, Blocks::new(), edges))
    }
}

/// The client on one connection.
struct Blocks {
    random: SplitMix64,
    /// The number of clients, each with its own offsets.
    clients: Arc<AtomicU64>,
}

impl Blocks {
    fn new() -> Self {
        Self { random: SplitMix64::new(0), clients: Arc::new(AtomicU64::new(1)) }
    }
}

impl Clone for Blocks {
    fn clone(&self) -> Self {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        Self { random: SplitMix64::new(number), clients: self.clients.clone() }
    }
}

impl Client for Blocks {
    async fn send(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        send_all(stream, &self.random.next().to_le_bytes()).await
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        read_more(stream, &mut [0; 1], 0).await?;
        let first = Some(Instant::now());
        expect_end(stream).await?;
        Ok(Reply { bytes: 1, open: false, first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_offsets_of_their_own() {
        let first = Blocks::new();
        let mut numbers: Vec<u64> = (0..100).map(|_| first.clone().random.next()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 100);
    }
}
