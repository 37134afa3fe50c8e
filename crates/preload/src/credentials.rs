//! Users and groups, which belong to kernel threads, and which programs mean for the process.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::errands;
use crate::frame::Frame;
use crate::helpers;
use crate::lock::{Locked, Setting};
use crate::sys::{failed, sys};
use crate::thread::ThreadRef;
use crate::worker::current;

/// A change of credentials that libc has announced to every thread (setuid(2) and its likes), each of which then makes
/// the same call.
#[derive(Clone, Copy)]
struct Broadcast {
    initiator: ThreadRef,
    /// What the call returned to the first of them.
    result: Option<isize>,
}

static BROADCAST: Setting<Option<Broadcast>> = Setting::new(None);
/// A worker changes the credentials.
static CHANGING: AtomicBool = AtomicBool::new(false);

/// The current thread announces a change of credentials to another thread. The caller holds the lock.
pub(crate) fn announce_credentials(_: &mut Locked) {
    if BROADCAST.get().is_none() {
        BROADCAST.set(Some(Broadcast { initiator: current(), result: None }));
    }
}

/// setuid(2) and its likes: helpers of the old user and group take no more calls.
///
/// Natively every thread has its own credentials. Here the kernel thread has them, so one call stands for those of all
/// threads: a second one would begin with the credentials that the first one left.
pub(crate) fn credentials(frame: &mut Frame) -> isize {
    while CHANGING.swap(true, Ordering::Acquire) {
        sys!(SYS_sched_yield);
    }
    let result = change_credentials(frame);
    CHANGING.store(false, Ordering::Release);
    result
}

fn change_credentials(frame: &Frame) -> isize {
    let broadcast = BROADCAST.get();
    if let Some(Broadcast { initiator, result: Some(result) }) = broadcast {
        if current().is(initiator) {
            BROADCAST.set(None);
        }
        return result;
    }
    let result = frame.pass();
    if !failed(result) {
        helpers::retire();
        errands::everywhere(frame.number(), frame.arguments());
    }
    if let Some(Broadcast { initiator, .. }) = broadcast {
        let last = current().is(initiator);
        BROADCAST.set((!last).then_some(Broadcast { initiator, result: Some(result) }));
    }
    result
}

/// In the child of a fork: no other thread takes part in a change.
pub(crate) fn reset_after_fork() {
    BROADCAST.set(None);
    CHANGING.store(false, Ordering::Relaxed);
}
