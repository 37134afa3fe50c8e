//! time: one line, whole, and the end.

use duality_services::Setup;
use duality_services::time::LINE_LENGTH;

use super::wire::{Wire, patiently};
use super::{Client, Days, Simulation, Trouble, wrong};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "time",
    checks: "the line is whole, and is the time of the server's day",
    begin: |days| {
        Box::pin(async move {
            let servers = days.servers(&Setup::default());
            let client = |days: Days, number| {
                let server = number % days.size.servers;
                Time { days, server }
            };
            days.pass(servers, client).await
        })
    },
};

struct Time {
    days: Days,
    server: usize,
}

impl Client for Time {
    async fn request(&mut self) -> Result<(), Trouble> {
        let mut wire = Wire::connect(&self.days, self.server).await?;
        let line = patiently(wire.rest()).await?;
        if line.len() < LINE_LENGTH {
            return Err(Trouble::Broken(format!("{} bytes of the line", line.len())));
        }
        let text = String::from_utf8_lossy(&line);
        let shape: String =
            text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        // Simulations begin on the first day of 2030, and clocks differ by an hour at most.
        match shape == "0000-00-00T00:00:00Z\r\n" && text.starts_with("2030-01-") {
            true => Ok(()),
            false => wrong(format!("{text:?}")),
        }
    }
}
