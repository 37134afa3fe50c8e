//! What code that asks the machine itself is told during a simulation: the time and random bytes.
//!
//! Code of the runtime asks its loop. Other code calls `clock_gettime(2)` and `getrandom(2)`. A
//! program that defines these symbols, as the crate `duality-outside` does, answers them by these
//! functions.

use std::cell::{Cell, RefCell};

use crate::decisions::Random;
use crate::network::EPOCH;

thread_local! {
    /// The time of the simulation of this kernel thread. `u64::MAX` outside of simulations.
    static TIME: Cell<u64> = const { Cell::new(u64::MAX) };
    /// The generator of random bytes. It is not that of the decisions: a program that asks for more
    /// bytes does not move them.
    static RANDOM: RefCell<Option<Random>> = const { RefCell::new(None) };
    /// The panic of the running turn.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The nanoseconds since the simulation of this kernel thread began. `None` without one.
#[must_use]
pub fn elapsed() -> Option<u64> {
    let time = TIME.get();
    (time != u64::MAX).then_some(time)
}

/// The nanoseconds since 1970, by the simulation of this kernel thread.
#[must_use]
pub fn time_of_day() -> Option<u64> {
    elapsed().map(|elapsed| EPOCH + elapsed)
}

/// Fills `bytes` from the seed. False without a simulation.
#[must_use]
pub fn fill_random(bytes: &mut [u8]) -> bool {
    RANDOM.with(|random| match random.try_borrow_mut() {
        Ok(mut random) => random.as_mut().is_some_and(|random| {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
            }
            true
        }),
        Err(_) => false,
    })
}

pub(crate) fn begin(seed: u64) {
    TIME.set(0);
    RANDOM.set(Some(Random::new(!seed)));
    PANIC.take();
}

pub(crate) fn set_time(time: u64) {
    TIME.set(time);
}

pub(crate) fn end() {
    TIME.set(u64::MAX);
    RANDOM.set(None);
}

/// Has panics on kernel threads that simulate kept, and not printed.
pub(crate) fn keep_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if elapsed().is_none() {
                return before(panic);
            }
            let text = panic.payload();
            let text = text.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.payload().downcast_ref::<&str>().copied());
            let place = panic.location().map_or(String::new(), |place| format!(" ({place})"));
            let line = format!("{}{place}", text.unwrap_or("a panic"));
            PANIC.with_borrow_mut(|kept| _ = kept.get_or_insert(line));
        }));
    });
}

pub(crate) fn take_panic() -> Option<String> {
    PANIC.take()
}
