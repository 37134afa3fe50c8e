//! The nice value, the scheduling policy, the I/O priority and the timer slack of each thread.
//!
//! Each thread has a record of what it asked for, from which the calls that ask are answered. New
//! threads and the child of a fork inherit it. The workers run all threads, so they get what holds
//! for all:
//!
//! ```text
//!   nice value                           the lowest of all threads: the highest priority
//!   policy, I/O priority, timer slack    what all threads have, once all have the same
//! ```
//!
//! So a program that sets its one thread, or all its threads, has what it natively has. A thread
//! that differs from the others is not run before or behind them: docs/run.md.

use crate::kernel::attributes::Attributes;
use crate::kernel::lock::{Guarded, Locked};
use crate::kernel::sys::{self, failed};
use crate::schedule::every_worker;
use crate::schedule::thread::{self, MAIN, ThreadRef};

/// What threads without a record have, and what the workers have now.
#[derive(Clone, Copy)]
struct Inherited {
    base: Attributes,
    workers: Attributes,
}

static KNOWN: Guarded<Option<Inherited>> = Guarded::new(None);

/// What the kernel would say of the thread, if something was asked for since the program began.
pub(crate) fn of(locked: &mut Locked, thread: ThreadRef) -> Option<Attributes> {
    let base = KNOWN.of(locked).as_ref()?.base;
    Some(thread.attributes.get(locked.held()).or(base))
}

/// As [`of`]. If nothing was asked for, the thread has what the worker has.
pub(crate) fn known_of(locked: &mut Locked, thread: ThreadRef) -> Attributes {
    KNOWN.of(locked).get_or_insert_with(|| {
        let base = Attributes::of_worker();
        Inherited { base, workers: base }
    });
    of(locked, thread).unwrap_or(Attributes::NONE)
}

/// The program's only thread has other attributes, and all workers have the same.
pub(crate) fn learn(locked: &mut Locked, thread: ThreadRef) {
    let now = Attributes::of_worker();
    *KNOWN.of(locked) = Some(Inherited { base: now, workers: now });
    thread.attributes.set(locked.held(), Attributes::NONE);
}

/// The kernel has changed the nice value of all threads.
pub(crate) fn learn_nice(locked: &mut Locked, nice: i32) {
    let mut each = thread::each(locked);
    while let Some(thread) = each.next(locked.held()) {
        let record = thread.attributes.get(locked.held());
        thread.attributes.set(locked.held(), Attributes { nice: Some(nice), ..record });
    }
    if let Some(known) = KNOWN.of(locked) {
        known.workers.nice = Some(nice);
    }
}

/// Notes what one of several threads has asked for, and gives the workers what holds for all.
pub(crate) fn ask(mut locked: Locked, thread: ThreadRef, asked: Attributes) {
    thread.attributes.set(locked.held(), asked);
    let Some(known) = *KNOWN.of(&mut locked) else { return };
    let workers = for_all(&mut locked, known, asked);
    *KNOWN.of(&mut locked) = Some(Inherited { workers, ..known });
    drop(locked);
    workers.apply(&known.workers, |number, arguments| {
        // SAFETY: calls that change the calling kernel thread alone, and read what they get.
        let result = unsafe { sys::call(number, arguments) };
        if !failed(result) {
            every_worker::everywhere(number, arguments);
        }
    });
}

/// What the workers are to have, now that a thread has `asked`. Mostly the first thread that is
/// looked at decides, since it has another value.
fn for_all(locked: &mut Locked, known: Inherited, asked: Attributes) -> Attributes {
    let Inherited { base, workers } = known;
    let mut same = asked;
    let mut each = thread::each(locked);
    while let Some(other) = each.next(locked.held()) {
        let other = other.attributes.get(locked.held()).or(base);
        same.nice = same.nice.min(other.nice);
        same.policy = same.policy.filter(|_| same.policy == other.policy);
        same.io = same.io.filter(|_| same.io == other.io);
        same.slack = same.slack.filter(|_| same.slack == other.slack);
        let differ = Attributes { nice: None, ..same } == Attributes::NONE;
        if differ && same.nice <= workers.nice {
            break;
        }
    }
    same.or(workers)
}

/// The record of a new thread of `parent`.
pub(crate) fn inherited(locked: &mut Locked, parent: ThreadRef) -> Attributes {
    let record = parent.attributes.get(locked.held());
    let all = of(locked, parent).unwrap_or(record);
    let inherited = all.inherited();
    if inherited == all { record } else { inherited }
}

/// In the child of a fork, which has the attributes of a worker: it gets those of the thread that
/// forked.
pub(crate) fn become_child(locked: &mut Locked, thread: ThreadRef) {
    let wanted = of(locked, thread);
    MAIN.attributes.set(locked.held(), Attributes::NONE);
    *KNOWN.of(locked) = None;
    if let Some(wanted) = wanted {
        wanted.inherited().apply(&Attributes::of_worker(), |number, arguments| {
            // SAFETY: calls that change this kernel thread alone, and read what they get.
            unsafe { sys::call(number, arguments) };
        });
    }
}
