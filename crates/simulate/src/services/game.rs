//! game: the lines of one player reach the other one of the pair, whole and in order.

use duality_services::Setup;

use super::wire::{Wire, patiently};
use super::{Client, Days, Simulation, Trouble, wrong};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "game",
    checks: "a player's lines reach the other one of the pair, once and in order",
    begin: |days| {
        Box::pin(async move {
            // One server: several are joined by Redis alone. Players come in pairs.
            let mut days = days;
            days.size.servers = 1;
            days.size.clients = days.size.clients.next_multiple_of(2);
            let servers = days.servers(&Setup::default());
            days.pass(servers, Player::new).await
        })
    },
};

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
        let mut wire = Wire::connect(0).await?;
        let begin = match patiently(wire.line()).await {
            // A player without another one waits. After the bad days, others may have ended.
            Err(Trouble::Broken(_)) if self.days.are_over() => return Ok(()),
            begin => begin?,
        };
        let is_first = match begin.as_str() {
            "PLAY first" => true,
            "PLAY second" => false,
            "* the server is full" => return Err(Trouble::Broken(begin)),
            _ => return wrong(format!("{begin:?} instead of PLAY")),
        };
        let mut other: Option<String> = None;
        for number in 0..LINES {
            let own = format!("{tag} {number} {}.\n", "y".repeat(number * 53));
            patiently(wire.send(own.as_bytes())).await?;
            let line = patiently(wire.line()).await?;
            if line == "* the other has left" {
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
            Some(line) if line == "* the other has left" => Ok(()),
            None => Ok(()),
            Some(line) => wrong(format!("{line:?} at the end")),
        }
    }
}
