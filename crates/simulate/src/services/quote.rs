//! quote: each price is that of the symbol, also of requests that were sent together.

use duality_services::Setup;

use super::wire::{Kept, patiently};
use super::{Client, Days, Simulation, Trouble, wrong};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "quote",
    checks: "each price is the symbol's, in the order of the requests",
    begin: |days| {
        Box::pin(async move {
            let servers = days.servers(&Setup::default());
            days.pass(servers, Quote::new).await
        })
    },
};

struct Quote {
    days: Days,
    kept: Kept,
}

impl Quote {
    fn new(days: Days, number: usize) -> Self {
        let kept = Kept::new(&days, number);
        Self { days, kept }
    }
}

/// The price as docs/protocols.md has it: by FNV-1a of 32 bits, in cents.
fn price(symbol: &str) -> String {
    let hash = symbol
        .bytes()
        .fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let cents = 100 + hash % 99_900;
    format!("{symbol} {}.{:02}", cents / 100, cents % 100)
}

impl Client for Quote {
    async fn request(&mut self) -> Result<(), Trouble> {
        let mut wire = self.kept.take().await?;
        let count = self.days.net.draw(5) + 1;
        let symbols: Vec<String> = (0..count)
            .map(|_| {
                let length = self.days.net.draw(8) + 1;
                (0..length).map(|_| (b'A' + self.days.net.draw(26) as u8) as char).collect()
            })
            .collect();
        let request: String = symbols.iter().map(|symbol| format!("{symbol}\n")).collect();
        patiently(wire.send(request.as_bytes())).await?;
        for symbol in &symbols {
            let line = patiently(wire.line()).await?;
            if line != price(symbol) {
                return wrong(format!("{line:?} for {symbol}"));
            }
        }
        if wire.has_rest() {
            return wrong("more replies than requests");
        }
        self.kept.keep(wire);
        Ok(())
    }
}
