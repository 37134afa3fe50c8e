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

/// A message to the player `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'l> {
    /// The player `from` wants to play with `to`.
    Pair { to: u64, from: Place },
    /// The sender plays with `from`, as `from` has asked.
    Yes { to: u64, from: Place },
    /// The sender does not play.
    No { to: u64 },
    /// Whole lines of the opponent.
    Lines { to: u64, lines: &'l [u8] },
    /// The opponent has got the lines.
    Taken { to: u64 },
    /// The opponent has left.
    Left { to: u64 },
}

impl<'l> Message<'l> {
    pub(super) fn to(&self) -> u64 {
        match self {
            Self::Pair { to, .. }
            | Self::Yes { to, .. }
            | Self::No { to }
            | Self::Lines { to, .. }
            | Self::Taken { to }
            | Self::Left { to } => *to,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Pair { to, from } => format!("pair {to} {from}\n").into_bytes(),
            Self::Yes { to, from } => format!("yes {to} {from}\n").into_bytes(),
            Self::No { to } => format!("no {to}\n").into_bytes(),
            Self::Lines { to, lines } => [format!("lines {to}\n").as_bytes(), lines].concat(),
            Self::Taken { to } => format!("taken {to}\n").into_bytes(),
            Self::Left { to } => format!("left {to}\n").into_bytes(),
        }
    }

    /// `None` if the bytes are not a message.
    pub(crate) fn decode(bytes: &'l [u8]) -> Option<Self> {
        let feed = memchr(b'\n', &bytes[..bytes.len().min(LONGEST_HEAD)])?;
        let (head, lines) = (std::str::from_utf8(&bytes[..feed]).ok()?, &bytes[feed + 1..]);
        let mut words = head.split(' ');
        let (kind, to, from) = (words.next()?, number(words.next()?)?, words.next());
        let message = match (kind, from) {
            ("pair", Some(from)) => Self::Pair { to, from: Place::parse(from)? },
            ("yes", Some(from)) => Self::Yes { to, from: Place::parse(from)? },
            ("no", None) => Self::No { to },
            ("lines", None) if (1..=LONGEST_LINES).contains(&lines.len()) => {
                return lines.ends_with(b"\n").then_some(Self::Lines { to, lines });
            }
            ("taken", None) => Self::Taken { to },
            ("left", None) => Self::Left { to },
            _ => return None,
        };
        (words.next().is_none() && lines.is_empty()).then_some(message)
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
        let long = format!("lines 1\n{}\n", "x".repeat(LONGEST_LINES));
        for bytes in [
            "",
            "\n",
            "no\n",
            "no 1",
            "no 01\n",
            "no -1\n",
            "no 1 2\n",
            "no 1\nx\n",
            "pair 1\n",
            "pair 1 2\n",
            "pair 1 2:\n",
            "pair 1 2:3 4\n",
            "lines 1\n",
            "lines 1\nx",
            "hello 1\n",
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
            for message in [
                Message::Pair { to, from },
                Message::Yes { to, from },
                Message::No { to },
                Message::Lines { to, lines },
                Message::Taken { to },
                Message::Left { to },
            ] {
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
