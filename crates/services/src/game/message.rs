//! The messages between desks: a line of words. After the word `lines`, the lines follow.

use std::fmt;

use memchr::memchr;

use super::player::{GATHERED, LONGEST};

/// The most bytes of lines in a message.
const LONGEST_LINES: usize = GATHERED + LONGEST + 1;

/// The longest line of words.
const LONGEST_HEAD: usize = 80;

/// The address of a player: its desk and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) desk: u64,
    pub(super) player: u64,
}

/// A message of the player `from` to the player `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'l> {
    pub(super) to: u64,
    pub(super) from: Place,
    pub(super) word: Word<'l>,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word<'l> {
    /// `from` wants to play with `to`.
    Pair,
    /// `from` plays with `to`, which has asked.
    Yes,
    /// `from` does not play.
    No,
    /// Whole lines of the opponent.
    Lines(&'l [u8]),
    /// The opponent has got the lines.
    Taken,
    /// The opponent has left.
    Left,
}

impl<'l> Message<'l> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { to, from, word } = self;
        let (word, lines): (_, &[u8]) = match word {
            Word::Pair => ("pair", b""),
            Word::Yes => ("yes", b""),
            Word::No => ("no", b""),
            Word::Lines(lines) => ("lines", lines),
            Word::Taken => ("taken", b""),
            Word::Left => ("left", b""),
        };
        [format!("{word} {to} {from}\n").as_bytes(), lines].concat()
    }

    /// `None` if the bytes are not a message.
    pub(crate) fn decode(bytes: &'l [u8]) -> Option<Self> {
        let feed = memchr(b'\n', &bytes[..bytes.len().min(LONGEST_HEAD)])?;
        let (head, lines) = (std::str::from_utf8(&bytes[..feed]).ok()?, &bytes[feed + 1..]);
        let mut words = head.split(' ');
        let (word, to, from) = (words.next()?, number(words.next()?)?, words.next()?);
        let word = match word {
            "pair" => Word::Pair,
            "yes" => Word::Yes,
            "no" => Word::No,
            "lines" => Word::Lines(lines),
            "taken" => Word::Taken,
            "left" => Word::Left,
            _ => return None,
        };
        let is_whole = match word {
            Word::Lines(_) => lines.len() <= LONGEST_LINES && lines.ends_with(b"\n"),
            _ => lines.is_empty(),
        };
        let message = Self { to, from: Place::parse(from)?, word };
        (words.next().is_none() && is_whole).then_some(message)
    }
}

impl Place {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (desk, player) = text.split_once(':')?;
        Some(Self { desk: number(desk)?, player: number(player)? })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.desk, self.player)
    }
}

/// A number without leading zeros, so that a message has only one form.
fn number(digits: &str) -> Option<u64> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_message_is_none() {
        let long = format!("lines 1 2:3\n{}\n", "x".repeat(LONGEST_LINES));
        for bytes in [
            "",
            "\n",
            "no\n",
            "no 1 2:3",
            "no 01 2:3\n",
            "no -1 2:3\n",
            "no 1 2\n",
            "no 1 2:3\nx\n",
            "pair 1\n",
            "pair 1 2\n",
            "pair 1 2:\n",
            "pair 1 2:3 4\n",
            "lines 1 2:3\n",
            "lines 1 2:3\nx",
            "lines 1\nx\n",
            "hello 1 2:3\n",
            &long,
        ] {
            assert_eq!(Message::decode(bytes.as_bytes()), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn messages_come_back(
            to in 1..=u64::MAX, desk in 1..=u64::MAX, player in 1..=u64::MAX, lines in "[ -~\n]{0,200}\n",
        ) {
            let (from, lines) = (Place { desk, player }, lines.as_bytes());
            for word in [
                Word::Pair, Word::Yes, Word::No, Word::Lines(lines), Word::Taken, Word::Left,
            ] {
                let message = Message { to, from, word };
                let encoded = message.encode();
                prop_assert_eq!(Message::decode(&encoded), Some(message));
            }
        }

        #[test]
        fn bytes_are_passed_over_or_taken_at_their_word(pieces in prop::collection::vec(
            prop::sample::select(vec!["no", "yes", "lines", "left", " ", "1", "2:3", "\n", "x", "0"]), 0..8,
        )) {
            let bytes = pieces.concat();
            if let Some(message) = Message::decode(bytes.as_bytes()) {
                prop_assert_eq!(message.encode(), bytes.as_bytes());
            }
        }
    }
}
