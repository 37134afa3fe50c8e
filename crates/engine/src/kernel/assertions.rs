//! Assertions about the engine's own state: what must hold before and after each step, and on both
//! sides of each hand-over.
//!
//! An assertion that costs next to nothing is a plain `assert!`, and is always on. An assertion
//! that walks a list or makes more work than its step is a [`check!`]. Those are on in builds for
//! tests, and with `duality run --assertions`.
//!
//! An assertion that fails ends the process with a line that names the place (exit status 70). The
//! state of all threads is then unknown, and to go on could damage the program's data.

use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the costly assertions are on.
static ON: AtomicBool = AtomicBool::new(cfg!(debug_assertions));

/// Lists with more items are not walked at each step: programs with many threads must end in time.
pub(crate) const LONGEST_WALK: usize = 512;

/// Turns the costly assertions on. Called before there are threads, without the lock.
pub(crate) fn switch_on() {
    ON.store(true, Ordering::Relaxed);
}

#[inline(always)]
pub(crate) fn are_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// An assertion that is checked only where the costly ones are on.
macro_rules! check {
    ($holds:expr, $($text:tt)+) => {
        if $crate::kernel::assertions::are_on() {
            assert!($holds, $($text)+);
        }
    };
}
pub(crate) use check;
