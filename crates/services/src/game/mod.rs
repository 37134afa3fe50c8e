//! The game service: clients are paired, and each one's lines go to the other.
//!
//! ```text
//!   first ── "left 3" ─▶ task of first ──── output of second ─▶ "left 3"
//!                             ╲  ╱
//!                              ╳            each task reads its own client and writes to the other
//!                             ╱  ╲
//!   "fire"  ◀─ output of first ──── task of second ◀─ "fire" ── second
//! ```
//!
//! The protocol consists of lines. A line ends with LF, and a CR before the LF is dropped. The
//! server's lines end with LF.
//!
//! * Clients are paired in the order in which they arrive. The first client of a pair gets `PLAY
//!   first`, the other `PLAY second`. A client that leaves earlier is not paired.
//! * Before `PLAY` the server sends nothing, and the client must send nothing. A client that sends
//!   a line too soon gets `ERROR wait for PLAY`, and the connection ends.
//! * After `PLAY`, each line of at most 1,024 bytes goes to the other client as it is. After a
//!   longer line, its sender gets a line that begins with `ERROR`, and the game ends.
//! * A client leaves by closing its side of the connection. It also counts as gone if it takes no
//!   sent bytes for 30 seconds, or is silent for an hour. The other client gets `* the other has
//!   left`, and the connection ends.
//! * If a descriptor for a connection is lacking, the client gets `* the server is full`, and the
//!   connection ends.
//!
//! Only the sockets queue lines, so a player that reads slowly slows only its opponent.
//!
//! With `--store redis://HOST:PORT` the players of a pair may be on two servers (`docs/chat.md`).
//! If Redis is unavailable, clients get `* the store is unavailable`, and their connections end.

mod across;
pub(crate) mod message;
mod player;
mod standing;

use std::{
    io, mem,
    net::Shutdown,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use duality_runtime::net::{Line, Lines, TcpStream};

use crate::{
    Entry, Setting,
    line::{FULL, PATIENCE, bound_patience, linger},
    shared,
    store::Channel,
};
use across::{Across, Seat};
use player::{
    EARLY, Ending, GATHERED, LEFT, LONGEST, Output, PLAY_FIRST, PLAY_SECOND, TOO_LONG, write,
};

/// The game service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "game",
    summary: "pairs its clients and passes each one's lines to the other",
    protocol: "lines of text, see docs/protocols.md",
    open: |setup| {
        let game = match setup.open_channel(ENTRY.name)? {
            Some(channel) => Game::across(channel),
            None => Game::new(),
        };
        Ok(shared(game, |game, stream| async move { game.serve(stream).await }))
    },
    settings: &[Setting::Store],
    shared_memory: true,
    concurrent_connections: true,
    descriptors: 2,
    tls: false,
    ..Entry::PLAIN
};

/// The time that a client may stay silent.
const SILENCE: Duration = Duration::from_secs(60 * 60);

/// A game service, shared by all its connections; a clone is the same service.
#[derive(Clone, Default)]
pub struct Game {
    /// The player that waits for an opponent.
    unpaired: Arc<Mutex<Option<UnpairedPlayer>>>,
    /// The place where players of several servers meet.
    across: Option<Arc<Across>>,
}

/// A player that waits for an opponent.
struct UnpairedPlayer {
    output: Output,
    other: Other,
}

/// The slot for the output of the other player, once that player has come. Set while
/// [`Game::unpaired`] is locked.
type Other = Arc<OnceLock<Output>>;

/// The opponent that a player finds.
enum Met {
    /// No other player is there yet.
    Nobody(Other),
    /// The output of the player that waited.
    First(Output),
}

impl Game {
    /// A game service without players.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same game on each server that has this channel.
    #[must_use]
    pub fn across(channel: Channel) -> Self {
        Self { across: Some(Arc::new(Across::new(channel))), ..Self::default() }
    }

    /// Pairs the client with another, and passes its lines on until one of the two leaves.
    ///
    /// # Errors
    ///
    /// The connection broke. A broken connection of the other player is not an error.
    pub async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(SILENCE))?;
        bound_patience(&mut stream, PATIENCE)?;
        let Ok(output) = Output::of(&mut stream) else {
            stream.write_all(FULL).await?;
            linger(&mut stream).await;
            return Ok(());
        };
        let mut lines = Lines::new(LONGEST);
        let paired = match &self.across {
            None => self.pair(&mut stream, &mut lines, &output).await.map(Opponent::Here),
            Some(across) => {
                across.pair(&mut stream, &mut lines, &output).await.map(Opponent::Across)
            }
        };
        match paired {
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
        // The lock makes PLAY the first line: as soon as the other player knows this output, it may
        // write to it.
        let mut own = output.0.lock().await;
        match self.meet(output) {
            Met::First(first) => {
                write(&mut own, PLAY_SECOND).await;
                drop(own);
                // If one of them has left meanwhile, its own task finds out, and tells the other.
                first.write(PLAY_FIRST).await;
                Ok(first)
            }
            Met::Nobody(other) => {
                drop(own);
                // `fill` waits for any input of this client. The second player does the pairing.
                let filled = lines.fill(stream).await;
                self.met_meanwhile(&other).ok_or(match filled {
                    Ok(true) => Ending::Word(EARLY),
                    Ok(false) => Ending::Left,
                    Err(error) => Ending::Broken(error),
                })
            }
        }
    }

    /// Pairs the player with the waiting player, or makes it the waiting player.
    fn meet(&self, output: &Output) -> Met {
        let mut unpaired = self.lock();
        match unpaired.take() {
            Some(waiting) => {
                // The slot is set only once, because the player that sets it has taken it out of
                // `unpaired`.
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

    /// The other player, if one has come. Otherwise none can come any more.
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

/// The other player of a pair.
enum Opponent {
    Here(Output),
    /// The other player may be on another server.
    Across(Seat),
}

impl Opponent {
    /// Writes to the other player. If that fails, returns how the game ends.
    async fn write(&self, bytes: &[u8]) -> Result<(), Ending> {
        match self {
            Self::Here(output) if output.write(bytes).await => Ok(()),
            Self::Here(_) => Err(Ending::Word(LEFT)),
            // Boxed, because a connection's task has room for its largest wait.
            Self::Across(seat) => Box::pin(seat.pass(bytes)).await,
        }
    }

    /// Tells the other player that this player has left.
    async fn end(&self) {
        match self {
            Self::Here(output) => output.end(LEFT).await,
            Self::Across(seat) => Box::pin(seat.leave()).await,
        }
    }
}

/// Passes a player's lines on to the other. Lines that came together leave together.
async fn pass_on(stream: &mut TcpStream, lines: &mut Lines, other: &Opponent) -> Ending {
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
                let _ = other.write(&gathered).await;
                return Ending::Word(TOO_LONG);
            }
            Ok(Line::End) => return Ending::Left,
            Err(error) => return Ending::Broken(error),
        }
        if gathered.len() >= GATHERED || !lines.has_whole_line() {
            if let Err(ending) = other.write(&gathered).await {
                return ending;
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
    other: Option<&Opponent>,
    ending: Ending,
) -> io::Result<()> {
    let (word, outcome) = match ending {
        Ending::Left => (None, Ok(())),
        Ending::Word(word) => (Some(word), Ok(())),
        Ending::Broken(error) => (None, Err(error)),
    };
    if word.is_none() {
        // The other player may be writing to this client, which takes nothing more. The shutdown
        // makes that write fail at once.
        let _ = stream.shutdown(Shutdown::Both).await;
    }
    output.end(word.unwrap_or_default()).await;
    if let Some(other) = other {
        other.end().await;
    }
    if word.is_some() {
        linger(stream).await;
    }
    outcome
}
