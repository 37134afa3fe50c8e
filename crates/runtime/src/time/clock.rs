//! The clock of the calling task's event loop, for crates that give Duality's worlds another
//! library's interface.
//!
//! A test can stop the clock. Time then passes only where nothing else can happen, and at once. So
//! an [`Alarm`](super::Alarm) that is hours away costs no time. Times that were taken from
//! [`Instant::now`] are those of the machine, not of this clock.

use std::time::{Duration, Instant};

use crate::event_loop::core::Core;
use crate::event_loop::current;
use crate::threads;

pub use crate::event_loop::clock::Hold;

/// The time, by the clock of the calling task's event loop. Without a loop, the machine's.
///
/// Take times from here instead of [`Instant::now`] where a test or a simulation is to decide how
/// time passes.
#[must_use]
#[inline]
pub fn now() -> Instant {
    current::with_loop(|core| core.map_or_else(threads::now, |core| core.clock().now()))
}

/// Whether the clock of the calling task's loop stands.
#[must_use]
pub fn stands() -> bool {
    current::with_loop(|core| core.is_some_and(|core| core.clock().stands()))
}

/// Stops the clock of the calling task's loop. False if it stands already, and in the block world,
/// where no thread knows whether all others wait.
#[must_use]
pub fn stop() -> bool {
    current::with_loop(|core| core.is_some_and(Core::stop_clock))
}

/// Has the clock of the calling task's loop go on. False if it goes.
#[must_use]
pub fn go_on() -> bool {
    current::with_loop(|core| core.is_some_and(|core| core.clock().go_on()))
}

/// Moves the clock of the calling task's loop, which stands. The tasks that wait for a time up to
/// then have their turns when the calling task waits or yields. False if the clock goes.
#[must_use]
pub fn advance(by: Duration) -> bool {
    current::with_loop(|core| core.is_some_and(|core| core.advance_clock(by)))
}

/// Keeps the clock of the calling task's loop from moving by itself, while work that the loop does
/// not know is under way. `None` in the block world.
pub fn hold() -> Option<Hold> {
    current::with_loop(|core| core.map(Core::hold_clock))
}
