//! Replies of Redis, or of another program at its address.
//!
//! A reply has one end, for any cut of the bytes. A reply holds no more bytes than came. An error
//! is final. A remark, a command, and messages of chat and game are read back unchanged.

#![no_main]

use duality_fuzz::split;
use duality_services::fuzzing::{
    Reply, chat_message, game_message, redis_command, redis_element, redis_remark, redis_reply,
};
use duality_services::store::Remark;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((reply, length))) = redis_reply(rest) {
        assert!(0 < length && length <= rest.len());
        assert_eq!(redis_reply(&rest[..length]), Ok(Some((reply.clone(), length))));
        check_prefixes(&rest[..length]);
        assert!(held(&reply) <= length);
        rest = &rest[length..];
    }
    check_prefixes(rest);

    let words = split(bytes);
    if words.len() <= 200 {
        let command = redis_command(&words);
        let meant = words.iter().map(|word| Reply::BulkString(word.to_vec())).collect();
        assert_eq!(redis_reply(&command), Ok(Some((Reply::Array(meant), command.len()))));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let (guest, text) = text.split_once(':').unwrap_or((text, text));
        let remark = Remark { guest: guest.to_owned(), text: text.to_owned() };
        assert_eq!(redis_remark(redis_element(&remark).as_bytes()), Some(remark));
    }
    if let Some(message) = game_message(bytes) {
        assert_eq!(message, bytes);
    }
    if let Some((number, lines)) = chat_message(bytes) {
        assert_eq!([format!("{number}\n").as_bytes(), lines].concat(), bytes);
        let begins = format!("{number}> ");
        let mut lines = lines.split_inclusive(|byte| *byte == b'\n');
        assert!(lines.all(|line| line.starts_with(begins.as_bytes()) && line.ends_with(b"\n")));
    }
});

/// The beginning of a reply is unfinished. If the beginning is an error, the whole reply is an
/// error too.
fn check_prefixes(bytes: &[u8]) {
    let whole = redis_reply(bytes);
    let mut length = 0;
    for piece in split(bytes) {
        match redis_reply(&bytes[..length]) {
            Ok(None) => {}
            Ok(Some(_)) => panic!("a part of a reply is a reply"),
            Err(()) => assert!(whole.is_err(), "more bytes make an error good"),
        }
        length += piece.len();
    }
}

/// Bytes of text in a reply. A remark has no more bytes than its element.
fn held(reply: &Reply) -> usize {
    match reply {
        Reply::SimpleString(bytes) => bytes.len(),
        Reply::BulkString(bytes) => {
            let remark = redis_remark(bytes);
            remark.map_or(bytes.len(), |remark| remark.guest.len() + remark.text.len())
        }
        Reply::Error(text) => text.len(),
        Reply::Array(elements) => elements.iter().map(held).sum(),
        Reply::Integer(_) | Reply::Null => 0,
    }
}
