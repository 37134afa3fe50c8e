//! The client of `quote`: asks for the price of one stock after the other. A price follows from its
//! symbol, so every answer can be checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duality_runtime::net::TcpStream;

use super::exchange::expect;
use super::{Entry, Protocol};
use crate::announce::EdgeAnnouncer;
use crate::crowd;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern;
use crate::request::{Client, Reply, send_all};

/// The symbols to ask for, in turn. The symbols have one to eight letters, so that replies differ
/// in length.
const SYMBOLS: [&str; 20] = [
    "A", "AAPL", "BMW", "C", "DIGITAL", "ERICSSON", "F", "GE", "HP", "IBM", "INTEL", "K",
    "MOTOROLA", "NCR", "ORCL", "PHILIPS", "SGI", "SIEMENS", "SUNW", "T",
];

/// Longer than any reply.
const BUFFER_SIZE: usize = 64;

pub(crate) static ENTRY: Entry = Entry::plain("quote", |_| Arc::new(Prices));

/// Ask the prices of stocks, one after the other.
#[derive(Debug)]
struct Prices;

impl Protocol for Prices {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn question(&self) -> Option<crowd::Question> {
        Some(crowd::Question::line(b"DUALITY\n"))
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        Box::pin(pattern::load(engine, Quote::new(), edges))
    }
}

/// The client on one connection.
struct Quote {
    questions: Arc<[QuoteRequest]>,
    /// The index of the last question.
    asked: usize,
    /// The start of the next connection's client. Starting points differ, so that clients do not
    /// ask in step.
    beginnings: Arc<AtomicUsize>,
    buffer: [u8; BUFFER_SIZE],
}

struct QuoteRequest {
    request: String,
    reply: String,
}

impl Quote {
    fn new() -> Self {
        let question = |symbol: &str| QuoteRequest {
            request: format!("{symbol}\n"),
            reply: format!("{symbol} {}\n", price(symbol)),
        };
        Self {
            questions: SYMBOLS.into_iter().map(question).collect(),
            asked: 0,
            beginnings: Arc::default(),
            buffer: [0; BUFFER_SIZE],
        }
    }
}

impl Client for Quote {
    async fn send(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        self.asked = (self.asked + 1) % self.questions.len();
        send_all(stream, self.questions[self.asked].request.as_bytes()).await
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let reply = self.questions[self.asked].reply.as_bytes();
        expect(stream, &mut self.buffer, reply).await
    }
}

impl Clone for Quote {
    fn clone(&self) -> Self {
        Self {
            questions: self.questions.clone(),
            asked: self.beginnings.fetch_add(1, Ordering::Relaxed) % self.questions.len(),
            beginnings: self.beginnings.clone(),
            buffer: [0; BUFFER_SIZE],
        }
    }
}

/// The price of a stock in the protocol's form: 1.00 to 999.99.
fn price(symbol: &str) -> String {
    let cents = 100 + fnv1a(symbol.as_bytes()) % 99_900;
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// The hash FNV-1a of 32 bits (Fowler, Noll and Vo).
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        // The values are from the authors' test vectors.
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn every_question_is_one_that_the_protocol_allows() {
        for question in &*Quote::new().questions {
            let symbol = question.request.strip_suffix('\n').unwrap();
            assert!((1..=8).contains(&symbol.len()), "{symbol}");
            assert!(symbol.bytes().all(|byte| byte.is_ascii_uppercase()), "{symbol}");
            assert!(question.reply.len() < BUFFER_SIZE, "{symbol}");
            let price = question.reply.strip_prefix(symbol).unwrap().trim();
            let cents: u32 = price.replace('.', "").parse().unwrap();
            assert!((100..100_000).contains(&cents), "{price}");
        }
    }

    #[test]
    fn connections_begin_with_different_symbols() {
        let first = Quote::new();
        let beginnings: Vec<_> = (0..SYMBOLS.len()).map(|_| first.clone().asked).collect();
        assert!(beginnings.iter().is_sorted_by(|one, next| one < next), "{beginnings:?}");
    }
}
