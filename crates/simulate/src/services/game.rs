//! game: the lines of one player reach the other one of the pair, whole and in order.

use super::wire::{Wire, patiently};
use super::{Client, Days, FULL, Simulation, Trouble, UNAVAILABLE, wrong};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "game",
    checks: "a player's lines reach the other one of the pair, once and in order",
    begin: |days| {
        Box::pin(async move {
            // Players come in pairs.
            let mut days = days;
            days.size.clients = days.size.clients.next_multiple_of(2);
            let servers = days.servers_joined()?;
            days.pass(servers, Player::new).await
        })
    },
};

/// What a player hears when the other one is gone.
const LEFT: &str = "* the other has left";

/// The lines that a player says in a game.
const LINES: usize = 5;

struct Player {
    days: Days,
    number: usize,
    games: usize,
}

impl Player {
    fn new(days: Days, number: usize) -> Self {
        Self { days, number, games: 0 }
    }
}

impl Client for Player {
    /// One game: both say their lines, and the first one leaves when it has heard all.
    async fn request(&mut self) -> Result<(), Trouble> {
        self.games += 1;
        let tag = format!("p{}.{}", self.number, self.games);
        let mut wire = Wire::connect(&self.days, self.number % self.days.size.servers).await?;
        let begin = match patiently(wire.line()).await {
            // A player without another one waits. After the bad days, others may have ended.
            Err(Trouble::Broken(_)) if self.days.are_over() => return Ok(()),
            begin => begin?,
        };
        let is_first = match begin.as_str() {
            "PLAY first" => true,
            "PLAY second" => false,
            FULL | UNAVAILABLE => return Err(Trouble::Broken(begin)),
            _ => return wrong(format!("{begin:?} instead of PLAY")),
        };
        let mut other: Option<String> = None;
        for number in 0..LINES {
            let own = format!("{tag} {number} {}.\n", "y".repeat(number * 53));
            patiently(wire.send(own.as_bytes())).await?;
            let line = patiently(wire.line()).await?;
            if [LEFT, UNAVAILABLE].contains(&line.as_str()) {
                return Err(Trouble::Broken(line));
            }
            let who = line.split(' ').next().unwrap_or_default().to_owned();
            let expected = format!("{who} {number} {}.", "y".repeat(number * 53));
            if line != expected || who == tag {
                return wrong(format!("{line:?} as line {number}"));
            }
            if *other.get_or_insert_with(|| who.clone()) != who {
                return wrong(format!("{who} plays, and {other:?} played before"));
            }
        }
        if is_first {
            return Ok(());
        }
        // The first one leaves.
        match patiently(wire.next_line()).await? {
            Some(line) if line == UNAVAILABLE => Err(Trouble::Broken(line)),
            Some(line) if line == LEFT => Ok(()),
            None => Ok(()),
            Some(line) => wrong(format!("{line:?} at the end")),
        }
    }
}
