//! Echo by hand: `duality_services::echo` does the same in nine lines.
//!
//! ```text
//!   accepted ──▶ reading ── what did not leave at once ──▶ writing
//!                  │  ▲                                      │
//!            end ◀─┘  └────────────── all of it has left ────┘
//! ```
//!
//! All connections of a loop read into one buffer. When a callback returns, the connection keeps
//! only the bytes that could not leave at once. The service uses an `Input` of the runtime, which
//! has memory only while it holds bytes.

use std::io;

use crate::attempts::Attempts;
use crate::{Next, StateMachine, Why};

/// The most bytes of one read, as in the service.
pub(crate) const BUFFER: usize = 4096;

/// One connection.
#[derive(Default)]
pub(crate) struct Echo {
    /// Bytes that have been read and not sent yet. Empty while the machine reads.
    unsent: Vec<u8>,
}

impl StateMachine for Echo {
    type Common = Box<[u8; BUFFER]>;
    type Found = ();

    fn accepted(_: &Self::Common) -> Self {
        Self::default()
    }

    fn refused(_: &Self::Common) -> Option<Self> {
        None
    }

    fn wake(
        &mut self,
        _: Why<()>,
        attempts: &mut Attempts<'_>,
        buffer: &mut Self::Common,
    ) -> Next<()> {
        match self.echo(attempts, &mut buffer[..]) {
            Ok(wait) => wait,
            Err(error) => error.into(),
        }
    }
}

impl Echo {
    fn echo(&mut self, attempts: &mut Attempts<'_>, buffer: &mut [u8]) -> io::Result<Next<()>> {
        loop {
            while !self.unsent.is_empty() {
                let Some(count) = attempts.write(&self.unsent)? else {
                    return Ok(Next::Write(None));
                };
                self.unsent.drain(..count);
            }
            match attempts.read(buffer)? {
                None => {
                    // Frees the memory that a slow client needed.
                    self.unsent = Vec::new();
                    return Ok(Next::Read(None));
                }
                Some(0) => return Ok(Next::End),
                Some(length) => {
                    let sent = attempts.write(&buffer[..length])?.unwrap_or(0);
                    self.unsent.extend_from_slice(&buffer[sent..length]);
                }
            }
        }
    }
}
