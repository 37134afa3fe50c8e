//! The game service: clients are paired, and what one says goes to the other.
//!
//! ```text
//!   first ── "left 3" ─▶ task of first ──── output of second ─▶ "left 3"
//!                             ╲  ╱
//!                              ╳            each task reads its own client and writes to the other
//!                             ╱  ╲
//!   "fire"  ◀─ output of first ──── task of second ◀─ "fire" ── second
//! ```
//!
//! Everything is lines. A line ends with LF, and a CR before it is dropped; what the server sends
//! ends with LF.
//!
//! * Clients are paired in the order in which they arrive. Of a pair, the first to come gets `PLAY
//!   first` and the other `PLAY second`. A client that leaves before is not paired.
//! * Before that the server sends nothing, and the client must send nothing. A client that does
//!   gets `ERROR wait for PLAY`, and the connection ends.
//! * From then on each line of one, of at most 1,024 bytes, goes to the other as it is. A longer
//!   line gets its sender a line that begins with `ERROR`, and ends the game.
//! * A client leaves by closing its side of the connection. It also leaves by taking nothing of
//!   what it is sent for 30 seconds, or by saying nothing for an hour. The other gets `* the other
//!   has left`, and the connection ends.
//! * When there is no descriptor for what a connection needs, the client gets `* the server is
//!   full`, and the connection ends.
//!
//! There is no queue but the sockets': a player that reads slowly slows only the other player.

use std::{
    io, mem,
    net::Shutdown,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use duality_runtime::{net::TcpStream, sync};

use crate::{
    Entry,
    line::{FULL, Line, Lines, PATIENCE, bound_patience, linger},
    shared,
};

/// The game service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "game",
    summary: "pairs its clients and passes each one's lines to the other",
    protocol: "lines of text, see docs/protocols.md",
    open: |_| Ok(shared(Game::new(), |game, stream| async move { game.serve(stream).await })),
    shared_memory: true,
    concurrent_connections: true,
    descriptors: 2,
    ..Entry::PLAIN
};

/// Bytes in the longest line that is passed on.
const LONGEST: usize = 1024;

/// How long a client may say nothing.
const SILENCE: Duration = Duration::from_secs(60 * 60);

/// Bytes of lines that are gathered before they are passed on.
const GATHERED: usize = 4 << 10;

const LEFT: &[u8] = b"* the other has left\n";
const EARLY: &[u8] = b"ERROR wait for PLAY\n";
const TOO_LONG: &[u8] = b"ERROR a line is at most 1024 bytes\n";

/// A game service, shared by all its connections; a clone is the same service.
#[derive(Clone, Default)]
pub struct Game {
    /// The player that waits for another.
    unpaired: Arc<Mutex<Option<UnpairedPlayer>>>,
}

/// A player that waits for another.
struct UnpairedPlayer {
    output: Output,
    other: Other,
}

/// Where the output of the other player will be once it has come. Set while [`Game::unpaired`] is
/// locked.
type Other = Arc<OnceLock<Output>>;

/// What a player finds.
enum Met {
    /// No other player is there yet.
    Nobody(Other),
    /// The player that has waited.
    First(Output),
}

impl Game {
    /// A game service without players.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Pairs the client with another, and passes its lines on until one of the two leaves.
    ///
    /// # Errors
    ///
    /// The connection broke. A broken connection of the other player is no error here.
    pub async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(SILENCE))?;
        bound_patience(&mut stream, PATIENCE)?;
        let Ok(output) = Output::of(&mut stream) else {
            stream.write_all(FULL).await?;
            linger(&mut stream).await;
            return Ok(());
        };
        let mut lines = Lines::new(LONGEST);
        match self.pair(&mut stream, &mut lines, &output).await {
            Ok(other) => {
                let ending = pass_on(&mut stream, &mut lines, &other).await;
                part(&mut stream, &output, Some(&other), ending).await
            }
            Err(ending) => part(&mut stream, &output, None, ending).await,
        }
    }

    /// Finds the other player and tells both to play.
    async fn pair(
        &self,
        stream: &mut TcpStream,
        lines: &mut Lines,
        output: &Output,
    ) -> Result<Output, Ending> {
        // The lock keeps PLAY first: as soon as the other player knows of this one, it may write to
        // it.
        let mut own = output.0.lock().await;
        match self.meet(output) {
            Met::First(first) => {
                write(&mut own, b"PLAY second\n").await;
                drop(own);
                // If either has left meanwhile, its own task finds that out, and tells the other.
                first.write(b"PLAY first\n").await;
                Ok(first)
            }
            Met::Nobody(other) => {
                drop(own);
                // This waits for any input of this client. The second player does the pairing.
                let filled = lines.fill(stream).await;
                self.met_meanwhile(&other).ok_or(match filled {
                    Ok(true) => Ending::Word(EARLY),
                    Ok(false) => Ending::Left,
                    Err(error) => Ending::Broken(error),
                })
            }
        }
    }

    /// Pairs the player with the one that waits, or has it wait.
    fn meet(&self, output: &Output) -> Met {
        let mut unpaired = self.lock();
        match unpaired.take() {
            Some(waiting) => {
                // It is set only once: the player that sets it has taken it out of `unpaired`.
                let _ = waiting.other.set(output.clone());
                Met::First(waiting.output)
            }
            None => {
                let other = Other::default();
                *unpaired = Some(UnpairedPlayer { output: output.clone(), other: other.clone() });
                Met::Nobody(other)
            }
        }
    }

    /// The other player, if one has come; if not, none will.
    fn met_meanwhile(&self, other: &Other) -> Option<Output> {
        let mut unpaired = self.lock();
        if other.get().is_none() {
            // No other player has come, so the waiting player is this one.
            *unpaired = None;
        }
        other.get().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Option<UnpairedPlayer>> {
        self.unpaired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a player's part in the game ended.
enum Ending {
    /// It has left.
    Left,
    /// The server ends it with these words.
    Word(&'static [u8]),
    /// Its connection broke.
    Broken(io::Error),
}

/// The writing side of a player; `None` after its last word, or after a write has failed.
#[derive(Clone)]
struct Output(Arc<sync::Mutex<Option<TcpStream>>>);

impl Output {
    fn of(stream: &mut TcpStream) -> io::Result<Self> {
        let mut twin = stream.try_clone()?;
        twin.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(Arc::new(sync::Mutex::new(Some(twin)))))
    }

    /// Writes to the player; false when it has left.
    async fn write(&self, bytes: &[u8]) -> bool {
        write(&mut *self.0.lock().await, bytes).await
    }

    /// Writes the last word, unless there has been one.
    async fn end(&self, word: &[u8]) {
        let last = self.0.lock().await.take();
        if let Some(mut stream) = last {
            let _ = stream.write_all(word).await;
            let _ = stream.shutdown(Shutdown::Write).await;
        }
    }
}

/// Writes to a player with locked output; false when it has left.
async fn write(output: &mut Option<TcpStream>, bytes: &[u8]) -> bool {
    let Some(stream) = output else { return false };
    let written = stream.write_all(bytes).await.is_ok();
    if !written {
        // The player's own task waits for input. The shutdown shows it that the game is over.
        let _ = stream.shutdown(Shutdown::Both).await;
        *output = None;
    }
    written
}

/// Passes a player's lines on to the other. Lines that have come together leave together.
async fn pass_on(stream: &mut TcpStream, lines: &mut Lines, other: &Output) -> Ending {
    let mut gathered = Vec::new();
    let mut passed = 0;
    loop {
        match lines.next(stream).await {
            Ok(Line::Text(line)) => {
                stream.begin_request();
                passed += 1;
                gathered.extend_from_slice(line);
                gathered.push(b'\n');
            }
            Ok(Line::TooLong) => {
                other.write(&gathered).await;
                return Ending::Word(TOO_LONG);
            }
            Ok(Line::End) => return Ending::Left,
            Err(error) => return Ending::Broken(error),
        }
        if gathered.len() >= GATHERED || !lines.has_whole_line() {
            if !other.write(&gathered).await {
                return Ending::Word(LEFT);
            }
            gathered.clear();
            (0..mem::take(&mut passed)).for_each(|_| stream.end_request());
        }
    }
}

/// Ends a player's part in the game, and tells the other player.
async fn part(
    stream: &mut TcpStream,
    output: &Output,
    other: Option<&Output>,
    ending: Ending,
) -> io::Result<()> {
    let (word, outcome) = match ending {
        Ending::Left => (None, Ok(())),
        Ending::Word(word) => (Some(word), Ok(())),
        Ending::Broken(error) => (None, Err(error)),
    };
    if word.is_none() {
        // The other player may be writing to this client, which takes nothing more. Its write fails
        // at once.
        let _ = stream.shutdown(Shutdown::Both).await;
    }
    output.end(word.unwrap_or_default()).await;
    if let Some(other) = other {
        other.end(LEFT).await;
    }
    if word.is_some() {
        linger(stream).await;
    }
    outcome
}
