//! The messages to a player, the writing side of its connection, and the end of its part in the
//! game.

use std::{io, net::Shutdown, sync::Arc};

use duality_runtime::{net::TcpStream, sync};

use crate::line::PATIENCE;

/// Bytes in the longest line that is passed on.
pub(super) const LONGEST: usize = 1024;

/// Bytes of lines that are gathered before they are passed on.
pub(super) const GATHERED: usize = 4 << 10;

pub(super) const PLAY_FIRST: &[u8] = b"PLAY first\n";
pub(super) const PLAY_SECOND: &[u8] = b"PLAY second\n";
pub(super) const LEFT: &[u8] = b"* the other has left\n";
pub(super) const EARLY: &[u8] = b"ERROR wait for PLAY\n";
pub(super) const TOO_LONG: &[u8] = b"ERROR a line is at most 1024 bytes\n";

/// How the game ended for a player.
pub(super) enum Ending {
    /// The player has left.
    Left,
    /// The server ends the game with these words.
    Word(&'static [u8]),
    /// The connection broke.
    Broken(io::Error),
}

/// The writing side of a player. `None` after its last word, or after a write has failed.
#[derive(Clone)]
pub(super) struct Output(pub(super) Arc<sync::Mutex<Option<TcpStream>>>);

impl Output {
    pub(super) fn of(stream: &mut TcpStream) -> io::Result<Self> {
        let mut twin = stream.try_clone()?;
        twin.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(Arc::new(sync::Mutex::new(Some(twin)))))
    }

    /// Writes to the player. False if the player has left.
    pub(super) async fn write(&self, bytes: &[u8]) -> bool {
        write(&mut *self.0.lock().await, bytes).await
    }

    /// Writes the last word, unless there has been one.
    pub(super) async fn end(&self, word: &[u8]) {
        let last = self.0.lock().await.take();
        if let Some(mut stream) = last {
            let _ = stream.write_all(word).await;
            let _ = stream.shutdown(Shutdown::Write).await;
        }
    }
}

/// Writes to a player with locked output. False if the player has left.
pub(super) async fn write(output: &mut Option<TcpStream>, bytes: &[u8]) -> bool {
    let Some(stream) = output else { return false };
    let written = stream.write_all(bytes).await.is_ok();
    if !written {
        // The player's own task waits for input. The shutdown shows it that the game is over.
        let _ = stream.shutdown(Shutdown::Both).await;
        *output = None;
    }
    written
}
