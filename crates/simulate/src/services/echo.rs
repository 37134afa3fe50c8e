//! echo: blocks of drawn lengths come back as they were sent.

use duality_services::Setup;

use super::wire::{Kept, patiently};
use super::{Client, Days, Simulation, Trouble, wrong};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "echo",
    checks: "each byte comes back once and in order",
    begin: |days| {
        Box::pin(async move {
            let servers = days.servers(&Setup::default());
            days.pass(servers, Echo::new).await
        })
    },
};

/// What the window always holds, so that neither side waits for the other to read.
const PIECE: usize = 200;

struct Echo {
    days: Days,
    number: usize,
    requests: usize,
    kept: Kept,
}

impl Echo {
    fn new(days: Days, number: usize) -> Self {
        let kept = Kept::new(&days, number);
        Self { days, number, requests: 0, kept }
    }
}

impl Client for Echo {
    async fn request(&mut self) -> Result<(), Trouble> {
        self.requests += 1;
        let mut wire = self.kept.take().await?;
        let length = self.days.net.draw(2000) as usize + 1;
        let mark = self.requests * 7 + self.number * 101;
        let bytes: Vec<u8> = (0..length).map(|at| (at * 31 + mark) as u8).collect();
        for piece in bytes.chunks(PIECE) {
            let reply = patiently(async {
                wire.send(piece).await?;
                wire.exactly(piece.len()).await
            });
            if reply.await? != piece {
                return wrong(format!("other bytes in request {}", self.requests));
            }
        }
        if wire.has_rest() {
            return wrong("more bytes than were sent");
        }
        self.kept.keep(wire);
        Ok(())
    }
}
