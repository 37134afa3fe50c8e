//! The cost of the conversion for a call that never waits: an async function against a plain one.
//!
//! The compiler inlines neither function, as with calls across crates. A call of the async function
//! has two steps: its state machine is made, and then polled. `black_box` keeps the compiler from
//! merging the two steps.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Calls a plain function.
pub(crate) async fn plain(count: u64) -> io::Result<Duration> {
    let start = Instant::now();
    let mut number = 0;
    for _ in 0..count {
        number = next(black_box(number));
    }
    black_box(number);
    Ok(start.elapsed())
}

/// Calls a converted function.
pub(crate) async fn converted(count: u64) -> io::Result<Duration> {
    let start = Instant::now();
    let mut number = 0;
    for _ in 0..count {
        let mut called = pin!(next_converted(black_box(number)));
        number = poll_fn(|context| poll(called.as_mut(), context)).await;
    }
    black_box(number);
    Ok(start.elapsed())
}

#[inline(never)]
fn next(number: u64) -> u64 {
    black_box(number + 1)
}

#[inline(never)]
async fn next_converted(number: u64) -> u64 {
    black_box(number + 1)
}

#[inline(never)]
fn poll<F: Future>(future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    future.poll(context)
}
