//! What a simulation finds in the planted programs.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use duality_simulate::{Ending, Net, Seeds, seeds};

use super::SECOND;
use super::planted;

/// Fails if no seed of a hundred finds the fault.
fn finds<S, C>(
    seeds: Seeds,
    server: impl Fn(Arc<AtomicU64>) -> S + Copy + Send + Sync + 'static,
    client: impl Fn(Arc<AtomicU64>) -> C + Copy + Send + Sync + 'static,
) where
    S: Future<Output: Ending> + 'static,
    C: Future<Output = Result<(), String>> + 'static,
{
    let found = seeds.apart().once().unshrunk().try_run(move |net: Net| async move {
        let shared = Arc::new(AtomicU64::new(0));
        let of_server = shared.clone();
        net.host("server", move || server(of_server.clone()));
        let asking = net.client("client", move || client(shared.clone()));
        tokio::time::sleep(20 * SECOND).await;
        net.partition("client", "server").for_(net.draw_time(20 * SECOND));
        asking.ended().await
    });
    let found = found.expect_err("the fault is found");
    println!("found by seed {}: {}", found.seed, found.why);
}

#[test]
fn one_read_is_one_line() {
    finds(seeds(0..100), |_| planted::one_read_is_one_line(), |_| planted::lines());
}

#[test]
fn acknowledged_before_it_is_stored() {
    let seeds = seeds(0..1000);
    finds(seeds, |_| planted::acknowledged_before_it_is_stored(), |_| planted::values());
}

#[test]
fn an_error_of_accept_ends_it() {
    finds(seeds(0..100), |_| planted::an_error_of_accept_ends_it(), |_| planted::served());
}

#[test]
fn a_retry_counts_twice() {
    finds(seeds(0..100), planted::a_retry_counts_twice, planted::counted);
}
