//! Unix sockets and datagrams: without faults, the same calls have the same results on Linux. With
//! faults, nothing is lost that must not be.

mod datagrams;
mod trouble;
mod unix;

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex};

use duality_simulate::{Faults, seeds};

/// How many seeds run.
const SEEDS: u64 = 40;

/// What a call returned, as it is compared.
fn shown(outcome: io::Result<impl Debug>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => "EAGAIN".to_owned(),
        Err(error) => format!("error {:?} ({error})", error.raw_os_error()),
    }
}

/// What the calls return on a simulated host without faults.
fn simulated<F: Future<Output = Vec<String>>>(
    calls: impl FnOnce() -> F + Send + 'static,
) -> Vec<String> {
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let (kept, calls) = (outcomes.clone(), Mutex::new(Some(calls)));
    seeds(0..1).faults(Faults::NONE).once().unshrunk().run(move |_| {
        let (kept, calls) = (kept.clone(), calls.lock().unwrap().take().expect("it runs once"));
        async move {
            let outcomes = calls().await;
            *kept.lock().unwrap() = outcomes;
        }
    });
    let mut outcomes = outcomes.lock().unwrap();
    std::mem::take(&mut *outcomes)
}
