//! Runs the planted programs of patch/simulated in turmoil, with seeds, random orders, latencies of
//! up to 3 s and a partition. Prints how many seeds find each fault:
//!
//! ```sh
//! cargo run --release --manifest-path patch/turmoil/Cargo.toml -- 1000
//! ```

mod net {
    pub use turmoil::net::{TcpListener, TcpStream};
}
#[path = "../../simulated/tests/programs/turmoil/planted.rs"]
mod planted;

use std::env;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::time::sleep;

/// Runs a server and its client with one seed. Returns what the client finds.
fn simulate<S, C>(
    seed: u64,
    server: impl Fn(Arc<AtomicU64>) -> S + Copy + 'static,
    client: impl Fn(Arc<AtomicU64>) -> C + Copy + 'static,
) -> turmoil::Result
where
    S: Future<Output = io::Result<()>> + 'static,
    C: Future<Output = Result<(), String>> + 'static,
{
    let mut sim = turmoil::Builder::new()
        .simulation_duration(Duration::from_secs(3600))
        .tick_duration(Duration::from_millis(10))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_secs(3))
        .enable_random_order()
        .rng_seed(seed)
        .build();
    let shared = Arc::new(AtomicU64::new(0));
    let of_server = shared.clone();
    sim.host("server", move || {
        let serving = server(of_server.clone());
        async move { Ok(serving.await?) }
    });
    sim.client("client", async move { Ok(client(shared).await?) });
    sim.client("trouble", async move {
        sleep(Duration::from_secs(20)).await;
        turmoil::partition("client", "server");
        sleep(Duration::from_millis(1 + seed % 1000 * 20)).await;
        turmoil::repair("client", "server");
        Ok(())
    });
    sim.run()
}

fn main() {
    let seeds = env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100);
    let tell = |name: &str, run: fn(u64) -> turmoil::Result| {
        let found = (0..seeds).filter(|seed| run(*seed).is_err()).count();
        println!("{name}: found by {found} of {seeds} seeds");
    };
    tell("one read is one line", |seed| {
        simulate(seed, |_| planted::one_read_is_one_line(), |_| planted::lines())
    });
    tell("acknowledged before it is stored", |seed| {
        simulate(seed, |_| planted::acknowledged_before_it_is_stored(), |_| planted::values())
    });
    tell("an error of accept ends it", |seed| {
        simulate(seed, |_| planted::an_error_of_accept_ends_it(), |_| planted::served())
    });
    tell("a retry counts twice", |seed| {
        simulate(seed, planted::a_retry_counts_twice, planted::counted)
    });
}
