//! The names of requests: 64 bits that the kernel hands back with a completion.

use crate::Token;

/// What a request is for. The name of a request consists of its purpose, the generation of its
/// source, and the source's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Purpose {
    /// A close or a cancellation; no code waits for its end.
    Nothing = 0,
    Accept,
    Receive,
    /// The token is the flight's number.
    Send,
    PollRead,
    PollWrite,
}

/// The highest generation of a source. The next one is 0 again.
pub(super) const GENERATIONS: u32 = (1 << 28) - 1;

/// The name of a request: 4 bits of purpose, 28 of generation, 32 of token.
pub(super) fn name(purpose: Purpose, generation: u32, token: Token) -> u64 {
    (purpose as u64) << 60 | u64::from(generation) << 32 | u64::from(token.0)
}

/// The parts of a [`name`].
pub(super) fn parts(name: u64) -> (Purpose, u32, Token) {
    let purpose = match name >> 60 {
        1 => Purpose::Accept,
        2 => Purpose::Receive,
        3 => Purpose::Send,
        4 => Purpose::PollRead,
        5 => Purpose::PollWrite,
        _ => Purpose::Nothing,
    };
    (purpose, (name >> 32) as u32 & GENERATIONS, Token(name as u32))
}
