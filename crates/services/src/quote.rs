//! The quote service: the reply to a symbol is its price.
//!
//! Each request is a line, and each reply is a line, in the order of the requests. A client may
//! send many requests before it reads. A line ends with LF, and a CR before the LF is dropped.
//! Replies end with LF.
//!
//! ```text
//! → ACME                     SYMBOL: 1 to 8 letters A to Z
//! ← ACME 123.45              SYMBOL PRICE, with two decimals
//! → acme                     anything else
//! ← ERROR a symbol is 1 to 8 letters A to Z
//! ```
//!
//! The reply to a line longer than 64 bytes begins with `ERROR`, and then the connection ends.
//! After 60 seconds of silence, the connection ends without a reply.
//!
//! Prices are invented, but a client can check them. In cents, the price is 100 + (h mod 99 900).
//! Here h is the 32-bit FNV-1a hash of the symbol
//! ([draft-eastlake-fnv](https://datatracker.ietf.org/doc/draft-eastlake-fnv/)).

use std::{
    io::{self, Write},
    mem,
    time::Duration,
};

use duality_runtime::{
    handler::Handler,
    net::{Line, Lines, TcpStream},
    task,
};

use crate::{
    Entry,
    line::{PATIENCE, bound_patience, linger},
};

/// The quote service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "quote",
    summary: "tells the price of a stock",
    protocol: "lines of text, see docs/protocols.md",
    open: |_| Ok(Handler::new(serve)),
    ..Entry::PLAIN
};

/// The most bytes in a request line.
const LONGEST: usize = 64;

/// The time that a client may stay silent.
const SILENCE: Duration = Duration::from_secs(60);

/// How many bytes of replies are gathered before they are sent.
const GATHERED: usize = 4 << 10;

/// Answers the requests of one connection. Replies to pipelined requests leave together when no
/// whole request is left.
///
/// # Errors
///
/// The connection broke, or the client took nothing of the replies for too long.
pub async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    bound_patience(&mut stream, PATIENCE)?;
    let mut lines = Lines::new(LONGEST);
    let mut replies = Vec::new();
    let mut answered = 0;
    loop {
        task::stage("quote").await;
        match lines.next(&mut stream).await? {
            Line::Text(symbol) => {
                stream.begin_request();
                answer(symbol, &mut replies);
                answered += 1;
            }
            Line::TooLong => {
                replies.extend_from_slice(b"ERROR a line is at most 64 bytes\n");
                stream.write_all(&replies).await?;
                linger(&mut stream).await;
                return Ok(());
            }
            Line::End => return Ok(()),
        }
        if replies.len() >= GATHERED || !lines.has_whole_line() {
            stream.write_all(&replies).await?;
            replies.clear();
            (0..mem::take(&mut answered)).for_each(|_| stream.end_request());
        }
    }
}

pub(crate) fn answer(symbol: &[u8], replies: &mut Vec<u8>) {
    if !(1..=8).contains(&symbol.len()) || !symbol.iter().all(u8::is_ascii_uppercase) {
        replies.extend_from_slice(b"ERROR a symbol is 1 to 8 letters A to Z\n");
        return;
    }
    let cents = 100 + fnv1a(symbol) % 99_900;
    replies.extend_from_slice(symbol);
    let written = writeln!(replies, " {}.{:02}", cents / 100, cents % 100);
    written.expect("a vector takes all that is written to it");
}

/// The 32-bit FNV-1a hash.
fn fnv1a(bytes: &[u8]) -> u32 {
    let step = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors are those of the draft.
    #[test]
    fn the_hash_is_fnv_1a() {
        for (text, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(fnv1a(text.as_bytes()), hash, "{text:?}");
        }
    }

    #[test]
    fn a_symbol_is_one_to_eight_capital_letters() {
        let answered = |symbol: &[u8]| {
            let mut replies = Vec::new();
            answer(symbol, &mut replies);
            assert!(replies.ends_with(b"\n"));
            !replies.starts_with(b"ERROR")
        };
        for good in ["A", "Z", "ABCDEFGH"] {
            assert!(answered(good.as_bytes()), "{good}");
        }
        for bad in ["", "a", "ABCDEFGHI", "A B", " A", "A1", "\u{c4}", "A\0"] {
            assert!(!answered(bad.as_bytes()), "{bad:?}");
        }
    }
}
