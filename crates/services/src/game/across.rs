//! Players of several servers, paired and connected through channels of Redis.
//!
//! ```text
//!   player 4 at desk 1                    Redis                    player 9 at desk 2
//!       no offer: offer 1:4 ─────────▶  offer 1:4
//!                                       offer 1:4  ─────────▶ take it
//!    PLAY first ◀── desk 1 ◀──────── pair 4 2:9 ◀──────────── ask
//!       yes ────────────────────────▶ yes 9 1:4 ────────▶ desk 2 ──▶ PLAY second
//!       line ───────────────────────▶ lines 9 … ────────▶ desk 2 ──▶ writer of 9 ──▶ client
//!       next line  ◀── desk 1 ◀──────── taken 4 2:9 ◀───────────── once it is written
//! ```
//!
//! The tasks of each event loop share a *desk*, and so do all tasks of a process without loops. A
//! desk has its own number, and its own channel for messages to its players. Players of one server
//! meet in the same way.
//!
//! **Pairing.** Redis has at most one offer: the address of a waiting player. The next player takes
//! the offer, and asks the waiting player. An offer may be out of date, because its player or its
//! server has gone. Then the answer is no or does not come, and the player tries again. About once
//! a second, a waiting player renews its offer if there is none.
//!
//! **Epochs.** A Redis that starts again may give numbers again. So a desk belongs to the process
//! of Redis that it hears, and reaches no desk of another process (`store::Channel`).
//!
//! **No queue.** A player's next lines are published after the opponent's writer has written the
//! earlier ones. So only the sockets queue lines, as within one server.
//!
//! **Ends.** A message to a desk that is gone has no receivers, so its player has left. About once
//! a second, each desk sends a message to the desks of its players' opponents. A desk without its
//! subscription tells all of its players that the store is unavailable.

use std::{
    collections::{BTreeMap, BTreeSet},
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use duality_runtime::{
    net::{Lines, TcpStream},
    sync, task,
    time::{self, timeout},
};

use super::{
    message::{Message, Place, Word},
    player::{EARLY, Ending, LEFT, Output, PLAY_FIRST},
    standing::Player,
};
use crate::{
    line::{FULL, UNAVAILABLE},
    per_loop::PerLoop,
    store::{Channel, Epoch, Subscription, Unavailable},
};

/// How long an answer may take. Afterwards the player asks another player.
const ANSWER: Duration = Duration::from_secs(2);

/// How often a client finds that Redis has started again, before it is sent away.
const ATTEMPTS: usize = 10;

/// The interval at which offers are renewed and opponents' desks are checked.
const ROUND: Duration = Duration::from_secs(1);

/// The desks of this server.
pub(super) struct Across {
    channel: Channel,
    desks: PerLoop<sync::Mutex<Option<Arc<Desk>>>>,
}

/// The state that the players of a loop share.
struct Desk {
    channel: Channel,
    /// The epoch of the channel, in which the numbers of desks and players are unique.
    epoch: Epoch,
    number: u64,
    state: Mutex<Players>,
}

#[derive(Default)]
struct Players {
    by_number: BTreeMap<u64, Arc<Player>>,
    /// Players that have left, and opponents that have not been told.
    farewells: Vec<(u64, Place)>,
    /// The subscription has ended.
    over: bool,
}

/// A player's place at its desk. Dropping the seat frees the place.
pub(super) struct Seat {
    desk: Arc<Desk>,
    player: Arc<Player>,
}

impl Across {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel, desks: PerLoop::default() }
    }

    /// Pairs the client with another, and tells both to play.
    pub(super) async fn pair(
        &self,
        stream: &mut TcpStream,
        lines: &mut Lines,
        output: &Output,
    ) -> Result<Seat, Ending> {
        // Boxed, because a connection's task has room for its largest wait.
        let seat = Box::pin(self.sit(output)).await?;
        if Box::pin(seat.seek()).await? {
            return Ok(seat);
        }
        let filled = lines.fill(stream).await;
        if seat.stops_waiting() {
            return Ok(seat);
        }
        Err(match filled {
            _ if seat.player.end().is_some() => Ending::Word(UNAVAILABLE),
            Ok(true) => Ending::Word(EARLY),
            Ok(false) => Ending::Left,
            Err(error) => Ending::Broken(error),
        })
    }

    /// Gives the client a place.
    async fn sit(&self, output: &Output) -> Result<Seat, Ending> {
        for _ in 0..ATTEMPTS {
            let desk = self.desk().await?;
            let (epoch, number) = self.channel.number().await?;
            if epoch != desk.epoch {
                // Redis has started again, so nothing comes to this desk any more.
                desk.ends();
                continue;
            }
            let player = Arc::new(Player::new(number, output.clone()));
            {
                let mut players = desk.players();
                // The desk may have ended at this moment.
                if players.over {
                    continue;
                }
                players.by_number.insert(number, player.clone());
            }
            let seat = Seat { desk: desk.clone(), player: player.clone() };
            task::spawn(write(desk, player))?;
            return Ok(seat);
        }
        Err(Ending::Word(UNAVAILABLE))
    }

    /// The desk of this loop.
    async fn desk(&self) -> Result<Arc<Desk>, Ending> {
        let slot = self.desks.here(|| sync::Mutex::new(None));
        let mut slot = slot.lock().await;
        if let Some(desk) = slot.as_ref().filter(|desk| !desk.players().over) {
            return Ok(desk.clone());
        }
        for _ in 0..ATTEMPTS {
            let (of_number, number) = self.channel.number().await?;
            let (epoch, subscription) = self.channel.subscribe(Some(number)).await?;
            if epoch != of_number {
                // Redis has started again meanwhile, and may give the number to another desk.
                continue;
            }
            let (channel, state) = (self.channel.clone(), Mutex::default());
            let desk = Arc::new(Desk { channel, epoch, number, state });
            task::spawn(attend(Attended(desk.clone()), subscription))?;
            *slot = Some(desk.clone());
            return Ok(desk);
        }
        Err(Ending::Word(UNAVAILABLE))
    }
}

impl Seat {
    /// Takes an offer and asks its player to play, until one says yes. If there is none, makes an
    /// offer, and another player must ask. Returns whether this player is paired.
    async fn seek(&self) -> Result<bool, Ending> {
        loop {
            match self.desk.channel.take_offer().await? {
                Some(offer) => {
                    let place = Place::parse(&offer).filter(|place| *place != self.place());
                    if let Some(place) = place
                        && self.asks(place).await?
                    {
                        return Ok(true);
                    }
                }
                None => {
                    self.player.standing().waits = true;
                    if self.desk.channel.offer(&self.place().to_string()).await? {
                        return Ok(false);
                    }
                    // Another player has made an offer meanwhile. That player, or a third one, may
                    // have asked already.
                    if self.stops_waiting() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Asks the player at `place`. Returns whether the two play together.
    async fn asks(&self, place: Place) -> Result<bool, Ending> {
        self.player.standing().asked = Some(place);
        if self.desk.send(self.player.number, place, Word::Pair).await? > 0 {
            let answered = async {
                while self.player.standing().asked.is_some() {
                    self.player.reader.notified().await;
                }
            };
            // A later answer may still come, and is ignored.
            let _ = timeout(ANSWER, answered).await;
        }
        let mut standing = self.player.standing();
        standing.stops_asking();
        match standing.end {
            Some(word) if standing.other.is_none() => Err(Ending::Word(word)),
            _ => Ok(standing.other.is_some()),
        }
    }

    /// Ends the player's wait, and returns whether it is paired.
    fn stops_waiting(&self) -> bool {
        let mut standing = self.player.standing();
        standing.waits = false;
        standing.other.is_some()
    }

    /// Passes lines on to the other player, and waits until that player's writer has written them.
    pub(super) async fn pass(&self, lines: &[u8]) -> Result<(), Ending> {
        let other = self.player.standing().other;
        let Some(other) = other.filter(|_| !lines.is_empty()) else { return Ok(()) };
        self.player.standing().unwritten = true;
        if self.desk.send(self.player.number, other, Word::Lines(lines)).await? == 0 {
            return Err(Ending::Word(LEFT));
        }
        loop {
            {
                let standing = self.player.standing();
                if let Some(word) = standing.end {
                    return Err(Ending::Word(word));
                }
                if !standing.unwritten {
                    return Ok(());
                }
            }
            self.player.reader.notified().await;
        }
    }

    /// Tells the other player that this player has left. If that fails, the desk tells it again.
    pub(super) async fn leave(&self) {
        let (player, other) = (self.player.number, self.player.standing().other);
        if let Some(other) = other
            && self.desk.send(player, other, Word::Left).await.is_err()
        {
            self.desk.players().farewells.push((player, other));
        }
    }

    fn place(&self) -> Place {
        self.desk.place(self.player.number)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.desk.players().by_number.remove(&self.player.number);
        self.player.ends(b"");
    }
}

impl Desk {
    /// Sends a message of a player of this desk to the player at `to`. Returns how many desks have
    /// got it: none or one.
    async fn send(&self, player: u64, to: Place, word: Word<'_>) -> Result<u64, Unavailable> {
        let message = Message { to: to.player, from: self.place(player), word };
        self.channel.publish(&self.epoch, Some(to.desk), &message.encode()).await
    }

    /// The place of a player of this desk.
    fn place(&self, player: u64) -> Place {
        Place { desk: self.number, player }
    }

    fn players(&self) -> MutexGuard<'_, Players> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the desk, and tells its players.
    fn ends(&self) {
        self.players().over = true;
        self.all().iter().for_each(|player| player.ends(UNAVAILABLE));
    }

    fn player(&self, number: u64) -> Option<Arc<Player>> {
        self.players().by_number.get(&number).cloned()
    }

    /// All players, for use without the lock.
    fn all(&self) -> Vec<Arc<Player>> {
        self.players().by_number.values().cloned().collect()
    }

    /// Handles a received message.
    async fn take(&self, Message { to, from, word }: Message<'_>) -> Result<(), Unavailable> {
        let player = self.player(to);
        let known = player.as_deref();
        let answer = match word {
            Word::Pair if !known.is_some_and(|player| player.is_asked(from)) => Word::No,
            Word::Yes if !known.is_some_and(|player| player.is_answered(from)) => Word::Left,
            _ => {
                if let Some(player) = known {
                    match word {
                        Word::Pair | Word::Yes => {}
                        Word::No => player.is_refused(from),
                        Word::Lines(lines) => player.is_told(from, lines),
                        Word::Taken => player.is_heard(from),
                        Word::Left => player.is_left(from),
                    }
                }
                return Ok(());
            }
        };
        self.send(to, from, answer).await.map(drop)
    }

    /// Renews the offers of waiting players, says farewell, and finds opponents that are gone.
    async fn make_round(&self) -> Result<(), Unavailable> {
        let farewells = mem::take(&mut self.players().farewells);
        for (player, other) in farewells {
            self.send(player, other, Word::Left).await?;
        }
        let mut opponents = BTreeSet::new();
        for player in self.all() {
            let (waits, other) = {
                let standing = player.standing();
                (standing.waits, standing.other)
            };
            if waits {
                self.channel.offer(&self.place(player.number).to_string()).await?;
            }
            opponents.extend(other.map(|other| other.desk));
        }
        for desk in opponents {
            if self.channel.publish(&self.epoch, Some(desk), b"").await? == 0 {
                let is_gone = |other: Place| other.desk == desk;
                let all = self.all();
                let lost = all.iter().filter(|player| player.standing().other.is_some_and(is_gone));
                lost.for_each(|player| player.ends(LEFT));
            }
        }
        Ok(())
    }
}

/// Writes the desk's lines for the player to its client.
async fn write(desk: Arc<Desk>, player: Arc<Player>) {
    loop {
        let (play, lines, other, end) = {
            let mut standing = player.standing();
            let play = mem::take(&mut standing.play);
            // The opponent's first lines may have come before its answer.
            let plays = play.is_none() && standing.other.is_some();
            let lines = if plays { mem::take(&mut standing.lines) } else { None };
            (play, lines, standing.other, standing.end)
        };
        // The opponent's last lines go out before the reason of the end.
        let answer = match (play, lines, other) {
            (Some(word), _, Some(other)) => {
                player.output.write(word).await;
                (word == PLAY_FIRST).then_some((other, Word::Yes))
            }
            (None, Some(lines), Some(other)) => {
                player.output.write(&lines).await;
                Some((other, Word::Taken))
            }
            _ => {
                match end {
                    // The task of the connection writes the last word.
                    Some([]) => return,
                    Some(word) => return player.output.end(word).await,
                    None => {}
                }
                player.writer.notified().await;
                continue;
            }
        };
        if let Some((other, word)) = answer
            && desk.send(player.number, other, word).await.is_err()
        {
            player.ends(UNAVAILABLE);
        }
    }
}

/// A desk with a subscription. Dropping it tells the players of the end.
struct Attended(Arc<Desk>);

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.ends();
    }
}

/// Handles the messages for a desk, until the subscription ends or the desk has no players.
async fn attend(attended: Attended, mut subscription: Subscription) {
    let desk = &attended.0;
    let mut last_round = time::now();
    while let Ok(heard) = subscription.next().await {
        if let Some(message) = heard.as_deref().and_then(Message::decode)
            && desk.take(message).await.is_err()
        {
            return;
        }
        if time::since(last_round) >= ROUND {
            if desk.make_round().await.is_err() {
                return;
            }
            last_round = time::now();
        }
        if heard.is_none() {
            let mut players = desk.players();
            players.over |= players.by_number.is_empty() && players.farewells.is_empty();
            if players.over {
                return;
            }
        }
        if !subscription.has_more() {
            task::yield_now().await;
        }
    }
}

impl From<Unavailable> for Ending {
    fn from(_: Unavailable) -> Self {
        Self::Word(UNAVAILABLE)
    }
}

impl From<io::Error> for Ending {
    /// There is no thread or stack for a task.
    fn from(_: io::Error) -> Self {
        Self::Word(FULL)
    }
}
