//! phone: what the server has acknowledged is there, also after crashes.

use duality_services::Setup;

use super::wire::{Kept, patiently};
use super::{Client, Days, Simulation, Trouble, wrong};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "phone",
    checks: "an acknowledged entry survives crashes, and no other one appears",
    begin: |days| {
        Box::pin(async move {
            let path = days.directory()?.join("phone.sqlite");
            let store = format!("sqlite:{}", path.display());
            let location = store.parse().map_err(|error| format!("{store}: {error}"))?;
            let setup = Setup { store: Some(location), ..Setup::default() };
            let servers = days.servers(&setup);
            days.pass(servers, Phone::new).await
        })
    },
};

/// A client, with a name of its own.
struct Phone {
    days: Days,
    name: String,
    kept: Kept,
    /// The last number that was acknowledged, and the last one that was sent.
    acknowledged: u64,
    sent: u64,
}

impl Phone {
    fn new(days: Days, number: usize) -> Self {
        let kept = Kept::new(number % days.size.servers);
        Self { days, name: format!("Ann{number}"), kept, acknowledged: 0, sent: 0 }
    }
}

impl Client for Phone {
    async fn request(&mut self) -> Result<(), Trouble> {
        let Self { days, name, kept, acknowledged, sent } = self;
        let mut wire = kept.take().await?;
        let is_add = days.net.draw(2) == 1;
        let request = match is_add {
            true => {
                *sent += 1;
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
            *acknowledged = *sent;
        } else {
            let found = match line.strip_prefix(&format!("FOUND {name} ")) {
                Some(number) => number.parse().unwrap_or(u64::MAX),
                None if line == format!("NONE {name}") => 0,
                None => return wrong(format!("{line:?} for {request:?}")),
            };
            if found < *acknowledged {
                let known = *acknowledged;
                return wrong(format!("{name} has {found}, and {known} was acknowledged"));
            }
            if found > *sent {
                return wrong(format!("{name} has {found}, which was never sent"));
            }
            // An entry that was sent before a crash may have been kept without an answer.
            *acknowledged = found;
        }
        kept.keep(wire);
        Ok(())
    }
}
