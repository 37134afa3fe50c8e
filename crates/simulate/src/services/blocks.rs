//! blocks: one byte for eight, and the end.

use duality_services::Setup;

use super::wire::{Wire, patiently};
use super::{Client, Days, Simulation, Trouble, wrong};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "blocks",
    checks: "a request of eight bytes has a reply of one byte, and the end",
    begin: |days| {
        Box::pin(async move {
            // The file is not what is simulated: a small one takes less time.
            let setup = Setup { data_size: Some(4096), read_size: Some(512), ..Setup::default() };
            let servers = days.servers(&setup);
            days.pass(servers, Blocks::new).await
        })
    },
};

struct Blocks {
    days: Days,
    server: usize,
}

impl Blocks {
    fn new(days: Days, number: usize) -> Self {
        let server = number % days.size.servers;
        Self { days, server }
    }
}

impl Client for Blocks {
    async fn request(&mut self) -> Result<(), Trouble> {
        let mut wire = Wire::connect(&self.days, self.server).await?;
        let number = self.days.net.draw(1 << 20);
        patiently(wire.send(&number.to_le_bytes())).await?;
        match patiently(wire.rest()).await?.len() {
            0 => Err(Trouble::Broken("no byte came".to_owned())),
            1 => Ok(()),
            count => wrong(format!("{count} bytes came")),
        }
    }
}
