//! What all programs go through, and how their clients ask.

use std::fmt::Display;
use std::time::Duration;

use duality_simulate::{Host, Net, Seeds, Tally, seeds};
use tokio::time::{Instant, sleep, timeout};

/// How long clients ask at least. Faults end before.
const BAD_DAYS: Duration = Duration::from_secs(120);
/// How long a client waits for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a request did not succeed.
pub enum Trouble {
    /// Faults are enough to explain it.
    Broken,
    /// No fault explains it.
    Wrong(String),
}

/// An error of a library, which faults explain.
pub fn broken<E>(_error: E) -> Trouble {
    Trouble::Broken
}

/// Fails with a line unless `is_right`.
pub fn check(is_right: bool, line: impl FnOnce() -> String) -> Result<(), Trouble> {
    if is_right { Ok(()) } else { Err(Trouble::Wrong(line())) }
}

/// The seeds of a test. `DUALITY_SEEDS` has more of them run.
pub fn few() -> Seeds {
    // Without faults, each client must be served again long before.
    seeds(0..8).apart().lasting(Duration::from_secs(3600))
}

/// Asks again and again. The last requests, which come after the faults, must succeed.
pub async fn ask_often(
    net: &Net,
    mut ask: impl AsyncFnMut(u64) -> Result<(), Trouble>,
) -> Result<(), String> {
    let begin = Instant::now();
    let (mut number, mut served) = (0, 0);
    while begin.elapsed() < BAD_DAYS || served < 3 {
        number += 1;
        match timeout(PATIENCE, ask(number)).await {
            Ok(Ok(())) => served += 1,
            Ok(Err(Trouble::Wrong(line))) => return Err(line),
            Ok(Err(Trouble::Broken)) | Err(_) => served = 0,
        }
        sleep(Duration::from_millis(500) + net.draw_time(Duration::from_secs(3))).await;
    }
    Ok(())
}

/// A partition and a crash. Then faults end, and all clients must be served.
pub async fn trouble(net: &Net, server: &Host, clients: &[Host]) -> Result<(), String> {
    sleep(net.draw_time(Duration::from_secs(30))).await;
    net.partition("ann", "server").for_(net.draw_time(Duration::from_secs(20)));
    sleep(net.draw_time(Duration::from_secs(30))).await;
    server.crash().restart_after(net.draw_time(Duration::from_secs(5)));
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        // Programs may end when the kernel refuses them something.
        if server.has_ended() {
            server.restart_if_down();
        }
    }
    net.calm();
    server.restart_if_down();
    for client in clients {
        client.ended().await.map_err(|why| why.to_string())?;
    }
    Ok(())
}

/// Ctrl-c must end the program.
pub async fn drained(server: &Host) -> Result<(), String> {
    server.drain();
    let ended = timeout(Duration::from_secs(60), server.ended()).await;
    ended.map_err(|_| "ctrl-c does not end the server")?.map_err(|why| why.to_string())
}

/// Each trouble must have happened.
pub fn tell(program: &str, tally: &Tally) {
    assert!(tally.counts.crashes > 0 && tally.counts.partitions > 0, "{}", tally.counts);
    assert!(tally.counts.connections > 0, "{}", tally.counts);
    println!("{program}: {} seeds, {}", tally.seeds, Line(tally));
}

struct Line<'t>(&'t Tally);

impl Display for Line<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { time, counts, hash, .. } = self.0;
        write!(formatter, "{:.2} h, hash {hash:016x}; {counts}", time.as_secs_f64() / 3600.0)
    }
}
