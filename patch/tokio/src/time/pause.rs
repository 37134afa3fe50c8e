//! A clock that stands still, for tests with long waits.
//!
//! Time then passes only where every task of the runtime waits, and at once.

use std::time::Duration;

use duality_runtime::time::clock;

use crate::runtime::RuntimeFlavor;
use crate::scheduler::context;
use crate::task::yield_now;

/// Stops the clock of the runtime.
///
/// # Panics
///
/// If the clock stands already. Outside of the tasks of a `current_thread` runtime. Under
/// `DUALITY_WORLD=threads`, since kernel threads do not know whether all others wait.
#[track_caller]
pub fn pause() {
    check();
    assert!(clock::stop(), "the clock is paused already");
}

/// Has the clock of the runtime go on from where it stands.
///
/// # Panics
///
/// If the clock goes, and like [`pause`].
#[track_caller]
pub fn resume() {
    check();
    assert!(clock::go_on(), "the clock is not paused");
}

/// Moves the clock of the runtime, which stands. Tasks that wait for a time up to then have their
/// turns before this returns.
///
/// # Panics
///
/// If the clock goes, and like [`pause`].
pub async fn advance(duration: Duration) {
    check();
    assert!(clock::advance(duration), "the clock is not paused");
    // The first turn ends the round of the loop, which then wakes the tasks that are due. The
    // second turn comes after theirs.
    yield_now().await;
    yield_now().await;
}

/// Checks that a runtime has one clock, which knows whether all tasks wait.
#[track_caller]
fn check() {
    context::with_current(|handle| {
        assert!(
            handle.runtime_flavor() == RuntimeFlavor::CurrentThread,
            "a clock can only be paused in a runtime of the flavor `current_thread`"
        );
        assert!(
            context::is_on_loop_of(handle.id()),
            "a clock can only be paused on a loop, by a task or within `block_on`; with DUALITY_WORLD=threads, set it \
             to another world"
        );
    });
}
