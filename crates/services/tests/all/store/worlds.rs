//! Runs each test body in every world.

use std::time::{Duration, Instant};

pub(crate) use duality_kit::{Case as World, in_every_world};

/// A working test never reaches this limit.
pub(crate) const EVER: Duration = Duration::from_secs(60);

/// Repeats a question until there is an answer. The test fails if none comes.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < EVER, "{what} did not come to pass");
        std::thread::yield_now();
    }
}
