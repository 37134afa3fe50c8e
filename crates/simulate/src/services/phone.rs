//! phone: what the server has acknowledged is there, also after crashes.

use std::collections::BTreeSet;

use super::wire::{Kept, patiently};
use super::{Client, DURABLE, Days, Simulation, Trouble, wrong};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "phone",
    checks: "an acknowledged entry survives crashes, and no other one appears",
    begin: |days| {
        Box::pin(async move {
            let servers = days.servers_with_store(DURABLE)?;
            days.pass(servers, Phone::new).await
        })
    },
};

/// A client, with a name of its own.
struct Phone {
    days: Days,
    name: String,
    kept: Kept,
    /// The number that is there, as far as is known, and the last one that was sent.
    known: u64,
    /// How often the store had lost its data when the request of the known number was sent.
    losses: usize,
    sent: u64,
    /// Numbers of requests that broke. Each may be kept later: a packet of a connection that the
    /// client has given up may arrive after those of the next one.
    in_doubt: BTreeSet<u64>,
}

impl Phone {
    fn new(days: Days, number: usize) -> Self {
        let kept = Kept::new(&days, number);
        Self {
            days,
            name: format!("Ann{number}"),
            kept,
            known: 0,
            losses: 0,
            sent: 0,
            in_doubt: BTreeSet::new(),
        }
    }
}

impl Client for Phone {
    async fn request(&mut self) -> Result<(), Trouble> {
        let Self { days, name, kept, known, losses, sent, in_doubt } = self;
        let mut wire = kept.take().await?;
        let losses_before = days.losses();
        let is_add = days.net.draw(2) == 1;
        let request = match is_add {
            true => {
                *sent += 1;
                in_doubt.insert(*sent);
                format!("ADD {name} {sent}")
            }
            false => format!("FIND {name}"),
        };
        patiently(wire.send(format!("{request}\n").as_bytes())).await?;
        let line = patiently(wire.line()).await?;
        if line == "ERROR the store is unavailable" {
            kept.keep(wire);
            return Err(Trouble::Broken(line));
        }
        if wire.has_rest() {
            return wrong("more replies than requests");
        }
        if is_add {
            if line != format!("ADDED {name} {sent}") {
                return wrong(format!("{line:?} for {request:?}"));
            }
            in_doubt.remove(sent);
            *known = *sent;
        } else {
            let found = match line.strip_prefix(&format!("FOUND {name} ")) {
                Some(number) => number.parse().unwrap_or(u64::MAX),
                None if line == format!("NONE {name}") => 0,
                None => return wrong(format!("{line:?} for {request:?}")),
            };
            let is_lost = found == 0 && *losses != days.losses();
            if found != *known && !in_doubt.remove(&found) && !is_lost {
                return wrong(format!("{name} has {found}, and {known} was acknowledged"));
            }
            *known = found;
        }
        *losses = losses_before;
        kept.keep(wire);
        Ok(())
    }
}
