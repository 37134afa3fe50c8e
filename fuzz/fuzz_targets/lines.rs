//! Lines, and their treatment by quote, phone and chat. (A game passes lines on unchanged.)
//!
//! For any cut of the bytes, the lines match their definition. A reply is one line. In a chat every
//! client receives the lines of the other clients, with any content.

#![no_main]

use duality_fuzz::{bytewise, split};
use duality_services::fuzzing::{chat, lines, phone, quote};
use libfuzzer_sys::fuzz_target;

/// The longest line of quote. Other services differ only in a greater length.
const LONGEST: usize = 64;

/// Bytes in the log of the chat, with room for every line.
const LOG: usize = 256;

fuzz_target!(|bytes: &[u8]| {
    let (given, too_long) = lines(LONGEST, &[bytes]);
    assert_eq!((given.clone(), too_long), defined(bytes));
    assert_eq!((given.clone(), too_long), lines(LONGEST, &split(bytes)));
    assert_eq!((given.clone(), too_long), lines(LONGEST, &bytewise(bytes)));
    for line in &given {
        check_quote(line);
        check_phone(line);
    }
    check_chat(&given);
});

/// The lines by their definition.
fn defined(bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut given = Vec::new();
    let mut rest = bytes;
    while let Some(feed) = rest.iter().position(|&byte| byte == b'\n') {
        let line = rest[..feed].strip_suffix(b"\r").unwrap_or(&rest[..feed]);
        if line.len() > LONGEST {
            return (given, true);
        }
        given.push(line.to_vec());
        rest = &rest[feed + 1..];
    }
    // A final CR may be part of the line's end.
    (given, rest.len() > LONGEST + 1)
}

fn check_quote(line: &[u8]) {
    let reply = quote(line);
    let text = std::str::from_utf8(&reply).expect("a reply is text");
    assert_eq!(text.find('\n'), Some(text.len() - 1), "a reply is one line");
    let is_symbol = (1..=8).contains(&line.len()) && line.iter().all(u8::is_ascii_uppercase);
    assert_eq!(text.starts_with("ERROR a"), !is_symbol);
    assert!(!is_symbol || reply.starts_with(line));
}

fn check_phone(line: &[u8]) {
    let Some((name, number)) = phone(line) else { return };
    assert!((1..=64).contains(&name.len()));
    assert!(!name.contains(|character: char| character.is_whitespace() || character.is_control()));
    let said = match number {
        Some(number) => {
            assert!((1..=32).contains(&number.len()));
            assert!(number.bytes().all(|byte| b"0123456789+-().".contains(&byte)));
            format!("ADD {name} {number}")
        }
        None => format!("FIND {name}"),
    };
    assert_eq!(said.as_bytes(), line);
}

fn check_chat(given: &[Vec<u8>]) {
    // 12 begins like 1 and ends like 2.
    let said: Vec<(u64, &[u8])> = given
        .iter()
        .zip([1, 12, 2].into_iter().cycle())
        .map(|(text, by)| (by, &text[..]))
        .collect();
    let delivered = |by: u64, text: &[u8]| [format!("{by}> ").as_bytes(), text, b"\n"].concat();
    let total: usize = said.iter().map(|(by, text)| delivered(*by, text).len()).sum();
    for hearer in [1, 2, 12, 3] {
        let others = said.iter().filter(|(by, _)| *by != hearer);
        let due: Vec<u8> = others.flat_map(|(by, text)| delivered(*by, text)).collect();
        assert_eq!(chat(&said, hearer, usize::max(total, 1)), Some(due.clone()));
        assert_eq!(chat(&said, hearer, LOG), (total <= LOG).then_some(due));
    }
}
