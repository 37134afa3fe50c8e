//! The client of `game`: two connections of the load hit a ball to and fro.
//!
//! ```text
//!   first     ├─ BALL 0 ─▶         BALL 1 ─▶┤├─ BALL 2 ─▶      BALL 3 ─▶┤├─ BALL 4 …
//!   second    ├────── BALL 0 ─▶┤├─ BALL 1 ─▶         BALL 2 ─▶┤├─ BALL 3 …
//! ```
//!
//! Each player adds one to the ball that it gets, and hits the ball back at once. A request is the
//! time from one hit to the next. So a player that leaves after a request owes no reply to the
//! other. Only the first request of a connection differs: it waits for the opponent, and then one
//! of the players serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duality_runtime::net::TcpStream;

use super::{Entry, Protocol};
use crate::announce::EdgeAnnouncer;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern;
use crate::request::line::Lines;
use crate::request::{Client, Reply, decimal, send_all};
use crate::sources::connect;
use crate::{Options, Pattern, Stop};

/// No ball and no message of the server has more bytes.
const LONGEST_LINE: usize = 64;

/// The distance between the balls of two pairs, so that they cannot be confused.
const BALLS_OF_A_PAIR: u64 = 1_000_000_000;

pub(crate) static ENTRY: Entry =
    Entry { is_across: true, ..Entry::plain("game", |_| Arc::new(Matches)) };

/// Play ball with another connection of the load.
#[derive(Debug)]
struct Matches;

impl Protocol for Matches {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn misfit(&self, options: &Options) -> Option<&'static str> {
        if options.pattern != Pattern::Closed {
            Some(
                "in a game a request waits for the other player's: only --pattern closed can load it",
            )
        } else if options.connections % 2 == 1 {
            Some("game needs an even number of connections, because clients play in pairs")
        } else if matches!(options.stop, Stop::Requests(number) if number % 2 == 1) {
            Some("game needs an even number of requests, because both players make one")
        } else {
            None
        }
    }

    fn has_independent_connections(&self) -> bool {
        false
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        Box::pin(pattern::load(engine, Game::new(engine.options.reply_timeout), edges))
    }
}

/// The client on one connection.
struct Game {
    reply_timeout: Duration,
    /// The number of pairs that have begun to play in the whole load.
    pairs: Arc<AtomicU64>,
    state: State,
    lines: Lines,
}

#[derive(Clone, Copy)]
enum State {
    /// The server has not said yet which player begins.
    Waiting,
    /// The opponent serves, with any ball.
    Served,
    /// This ball is due.
    Due(u64),
}

impl Game {
    fn new(reply_timeout: Duration) -> Self {
        Self {
            reply_timeout,
            pairs: Arc::default(),
            state: State::Waiting,
            lines: Lines::new(LONGEST_LINE),
        }
    }

    /// Waits for an opponent, and serves if the server says `PLAY first`.
    async fn begin(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        self.state = match self.lines.next(stream).await? {
            b"PLAY first" => {
                let pair = self.pairs.fetch_add(1, Ordering::Relaxed);
                let ball = pair.wrapping_mul(BALLS_OF_A_PAIR);
                hit(stream, ball).await?;
                State::Due(ball.wrapping_add(1))
            }
            b"PLAY second" => State::Served,
            _ => return Err(Failure::WrongBytes("neither PLAY first nor PLAY second")),
        };
        Ok(())
    }

    /// Waits for the ball, and hits it back. Returns the length of the ball's line.
    async fn play(&mut self, stream: &mut TcpStream) -> Result<u64, Failure> {
        let line = self.lines.next(stream).await?;
        let length = line.len() as u64 + 1;
        if line == b"* the other has left" {
            return Err(Failure::OtherLeft);
        }
        let ball = line
            .strip_prefix(b"BALL ")
            .and_then(decimal)
            .ok_or(Failure::WrongBytes("it is not a ball"))?;
        if matches!(self.state, State::Due(due) if due != ball) {
            return Err(Failure::WrongBytes("it is not the ball that is due"));
        }
        hit(stream, ball.wrapping_add(1)).await?;
        self.state = State::Due(ball.wrapping_add(2));
        Ok(length)
    }
}

impl Client for Game {
    /// A single player learns nothing, so this method opens a second connection as the opponent.
    async fn learn(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        let address = stream.peer_addr().map_err(|error| Failure::from_transfer(error, 0))?;
        let mut other_stream = connect(address, self.reply_timeout).await?;
        let mut other = self.clone();
        self.begin(stream).await?;
        other.begin(&mut other_stream).await?;
        match (self.state, other.state) {
            (State::Due(_), State::Served) => {
                other.play(&mut other_stream).await?;
                self.play(stream).await?;
            }
            (State::Served, State::Due(_)) => {
                self.play(stream).await?;
                other.play(&mut other_stream).await?;
            }
            _ => return Err(Failure::WrongBytes("of two players, not one is to begin")),
        }
        Ok(())
    }

    fn connected(&mut self) {
        self.state = State::Waiting;
        self.lines.clear();
    }

    /// Sends only on the first call. Later `receive` sends the ball back as soon as it comes.
    async fn send(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        if matches!(self.state, State::Waiting) {
            self.begin(stream).await?;
        }
        Ok(())
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let bytes = self.play(stream).await?;
        Ok(Reply::at_once(bytes, true))
    }
}

impl Clone for Game {
    fn clone(&self) -> Self {
        Self {
            reply_timeout: self.reply_timeout,
            pairs: self.pairs.clone(),
            state: State::Waiting,
            lines: self.lines.fresh(),
        }
    }
}

async fn hit(stream: &mut TcpStream, ball: u64) -> Result<(), Failure> {
    send_all(stream, format!("BALL {ball}\n").as_bytes()).await
}
