//! Users and groups. The kernel keeps them for each kernel thread, but programs mean them for the
//! process.

use crate::kernel::frame::Frame;
use crate::kernel::lock::{Guarded, Locked, lock};
use crate::kernel::sys::{failed, sys};
use crate::schedule::every_worker;
use crate::schedule::scheduler;
use crate::schedule::thread::ThreadRef;
use crate::schedule::worker::current;
use crate::workers::helpers;

/// A change of credentials that libc has announced to every thread (setuid(2) and its likes). Each
/// thread then makes the same call.
#[derive(Clone, Copy)]
struct Broadcast {
    initiator: ThreadRef,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Announced,
    /// The first thread is making the call.
    UnderWay,
    /// The call has returned this result.
    Done(isize),
}

static BROADCAST: Guarded<Option<Broadcast>> = Guarded::new(None);

/// Notes that the current thread announces a change of credentials to another thread.
pub(crate) fn announce_credentials(locked: &mut Locked) {
    let initiator = current();
    let progress = Progress::Announced;
    BROADCAST.of(locked).get_or_insert(Broadcast { initiator, progress });
}

/// setuid(2) and its likes: helpers of the old user and group take no more calls.
///
/// Natively every thread has its own credentials. Here the credentials belong to the kernel thread.
/// So one call stands for the calls of all threads. A second call would begin with the credentials
/// that the first call left.
pub(crate) fn credentials(frame: &mut Frame) -> isize {
    let mut locked = lock();
    loop {
        match BROADCAST.of(&mut locked) {
            None => break,
            Some(Broadcast { initiator, progress: Progress::Done(result) }) => {
                let result = *result;
                if current().is(initiator) {
                    *BROADCAST.of(&mut locked) = None;
                }
                return result;
            }
            Some(Broadcast { progress: Progress::UnderWay, .. }) => wait_a_turn(&mut locked),
            Some(announced) => {
                announced.progress = Progress::UnderWay;
                break;
            }
        }
    }
    drop(locked);
    let result = frame.pass();
    if !failed(result) {
        every_worker::everywhere(frame.number(), frame.arguments());
        // Before this, another worker may have started a helper that has its old user.
        helpers::retire();
    }
    let mut locked = lock();
    let broadcast = BROADCAST.of(&mut locked);
    match broadcast {
        Some(Broadcast { initiator, .. }) if current().is(initiator) => *broadcast = None,
        Some(others) => others.progress = Progress::Done(result),
        None => {}
    }
    result
}

/// Lets another thread, or another worker, go on.
fn wait_a_turn(locked: &mut Locked) {
    locked.released(|| sys!(SYS_sched_yield));
    let _others = scheduler::let_others_run(locked, false);
}

/// Called in the child of a fork: no other thread takes part in a change.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    *BROADCAST.of(locked) = None;
}
