//! A server that is worse than its equals by a known amount. `scripts/planted.py` lets the lab look
//! for it.
//!
//! The lab starts this program for each of its servers, with different values of `--backlog` only.
//! No load here fills the queue. So the length of the queue tells this program which fault to
//! plant, and the lab does not know the fault.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use duality::net::TcpStream;

/// A change that makes a server worse.
#[derive(Clone, Copy, Debug, Default)]
struct Plant {
    /// Processor time of each request.
    work: Duration,
    /// The time that each request waits, without using a processor.
    wait: Duration,
    /// The memory that the server holds.
    bytes: usize,
}

static PLANT: OnceLock<Plant> = OnceLock::new();

/// The fault that a backlog stands for.
fn planted(backlog: &str) -> Plant {
    let plant = Plant::default();
    match backlog {
        "4001" => Plant { work: Duration::from_nanos(250), ..plant },
        "4002" => Plant { work: Duration::from_nanos(500), ..plant },
        "4003" => Plant { wait: Duration::from_millis(1), ..plant },
        "4004" => Plant { bytes: 2 << 20, ..plant },
        "4005" => Plant { work: Duration::from_micros(500), ..plant },
        _ => plant,
    }
}

async fn page(mut stream: TcpStream) -> std::io::Result<()> {
    let plant = PLANT.get().copied().unwrap_or_default();
    let mut request = [0; 64];
    loop {
        if stream.read(&mut request).await? == 0 {
            return Ok(());
        }
        let begun = Instant::now();
        while begun.elapsed() < plant.work {}
        if !plant.wait.is_zero() {
            duality::time::sleep(plant.wait).await;
        }
        stream.write_all(REPLY).await?;
    }
}

const REPLY: &[u8] = &[b'x'; 305];

fn main() -> std::process::ExitCode {
    let backlog =
        std::env::args().find_map(|flag| Some(flag.strip_prefix("--backlog=")?.to_owned()));
    let plant = planted(backlog.as_deref().unwrap_or_default());
    let memory = vec![1_u8; plant.bytes];
    std::hint::black_box(&memory);
    PLANT.get_or_init(|| plant);
    let reply = String::from_utf8_lossy(REPLY).into_owned();
    duality::Service::new("page", page).independent_connections().exchange("page", reply).main()
}
