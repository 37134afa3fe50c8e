//! Thin functions over the private parsers, for the fuzz targets in `fuzz/`. They exist only under
//! `cfg(fuzzing)`, which changes nothing else.

use crate::{
    chat::{
        across,
        log::{Log, Prefix},
    },
    game::message::Message,
    phone, quote,
    store::{Remark, redis::codec},
};

/// See `http/fuzzing.rs`.
pub mod http {
    pub use crate::http::fuzzing::*;
}

/// See `guestbook/fuzzing.rs`.
pub mod guestbook {
    pub use crate::guestbook::fuzzing::*;
}

/// The lines in `pieces`, up to the first that is longer than `longest` bytes, and whether there
/// was a longer line.
#[must_use]
pub fn lines(longest: usize, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
    duality_runtime::net::given_out(longest, pieces)
}

/// The reply of the quote service to a line.
#[must_use]
pub fn quote(line: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    quote::answer(line, &mut reply);
    reply
}

/// The phone service's reading of a line: the name, and the number if the line adds an entry.
#[must_use]
pub fn phone(line: &[u8]) -> Option<(&str, Option<&str>)> {
    match phone::parse(line).ok()? {
        phone::Request::Add { name, number } => Some((name, Some(number))),
        phone::Request::Find { name } => Some((name, None)),
    }
}

/// The bytes that one member of a chat hears after all members, itself included, have said these
/// lines. The member reads all lines at the end, in stretches, from a log of `capacity` bytes.
/// `None` if the log has dropped lines before the member read them.
#[must_use]
pub fn chat(lines: &[(u64, &[u8])], hearer: u64, capacity: usize) -> Option<Vec<u8>> {
    let mut log = Log::new(capacity);
    for (number, text) in lines {
        log.add(format!("{number}> ").as_bytes(), text);
    }
    let prefix = Prefix::new(hearer);
    let (mut cursor, mut heard) = (0, Vec::new());
    while cursor < log.end() {
        let mut stretch = Vec::new();
        cursor = log.copy(cursor, &mut stretch).ok()?;
        prefix.take_out(&mut stretch);
        heard.extend_from_slice(&stretch);
    }
    Some(heard)
}

/// The number and the lines in a message between the servers of a chat.
#[must_use]
pub fn chat_message(message: &[u8]) -> Option<(u64, &[u8])> {
    across::decode(message)
}

/// Decodes a message between the servers of a game, and encodes it again.
#[must_use]
pub fn game_message(message: &[u8]) -> Option<Vec<u8>> {
    Message::decode(message).map(|message| message.encode())
}

pub use redis_protocol::resp2::types::OwnedFrame as Reply;

/// A reply of Redis and its length in bytes, if the reply is complete.
///
/// # Errors
///
/// The bytes are not a reply, or exceed the bounds.
pub fn redis_reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, ()> {
    codec::decode_reply(bytes).map_err(|_| ())
}

/// A command as it is sent to Redis.
#[must_use]
pub fn redis_command(words: &[&[u8]]) -> Vec<u8> {
    let mut command = Vec::new();
    codec::push_command(&mut command, words);
    command
}

/// Decodes a remark from an element of Redis's list.
#[must_use]
pub fn redis_remark(element: &[u8]) -> Option<Remark> {
    codec::decode_remark(element)
}

/// Encodes a remark as an element of Redis's list.
#[must_use]
pub fn redis_element(remark: &Remark) -> String {
    codec::encode_remark(remark)
}
