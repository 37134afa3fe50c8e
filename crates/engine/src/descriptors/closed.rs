//! Files that calls wait for, after their descriptors have been closed.
//!
//! Natively a call that waits keeps its file open. Here the engine keeps a copy of the descriptor,
//! out of the program's way. The calls go on with that copy. The last call that ends closes the
//! copy. A thread asks for the copy when it has been woken. A task gets the copy as the argument of
//! its call.

use alloc::vec::Vec;

use crate::descriptors::facts;
use crate::descriptors::registry::get;
use crate::descriptors::ring;
use crate::descriptors::spare_numbers::out_of_the_way;
use crate::kernel::lock::{Guarded, Locked, lock};
use crate::kernel::sys::sys;
use crate::schedule::poll_node::PollNode;
use crate::schedule::task::{Task, TaskRef};
use crate::schedule::worker::current;

/// A copy of a descriptor.
struct DescriptorCopy {
    number: usize,
    /// Calls that have not ended.
    users: usize,
}

static KEPT: Guarded<Vec<DescriptorCopy>> = Guarded::new(Vec::new());

/// Called before a descriptor is closed. Calls that wait for it go on with its file by way of
/// another descriptor, as in the kernel. A call that waits for several descriptors stays in its
/// wait. All other waits end: see [`goes_on_with`]. Returns whether calls go on with the file.
pub(crate) fn for_waiters(number: usize) -> bool {
    let Some(descriptor) = get(number) else { return false };
    if ring::is_active() {
        ring::take_before_close(&mut lock(), number);
    }
    if !descriptor.is_waited_for() {
        return false;
    }
    let copy = sys!(SYS_fcntl, number as i32, libc::F_DUPFD_CLOEXEC, 3);
    let Ok(kept) = out_of_the_way(copy) else { return false };
    let kept = kept as usize;
    let Some(other) = get(kept) else {
        sys!(SYS_close, kept);
        return false;
    };
    other.renew(kept);
    if descriptor.has(facts::SHARED) {
        other.share();
    }
    let mut locked = lock();
    let mut users = 0;
    for side in [&descriptor.read, &descriptor.write] {
        // Calls on a former file of this number go on with another copy.
        for waiter in side.iter(locked.held()).filter(|waiter| waiter.waits_for.get() == number) {
            waiter.waits_for.set(kept);
            if waiter.home().is_some() {
                Task::of(waiter).go_on_with(kept, other.generation());
            }
            users += 1;
        }
    }
    let polls = PollNode::move_all(&mut locked, &descriptor.polls, &other.polls, kept);
    if users + polls == 0 {
        sys!(SYS_close, kept);
        return false;
    }
    // The file stays open, so epoll would go on reporting its events under the former number.
    descriptor.unregister(number);
    // A call that is woken from here on uses the copy.
    descriptor.forget(number);
    if polls > 0 {
        // A descriptor that epoll refuses is always ready.
        let _ready = other.register(kept);
    }
    let all = KEPT.of(&mut locked);
    assert!(all.iter().all(|other| other.number != kept), "a descriptor is kept twice");
    all.push(DescriptorCopy { number: kept, users: users + polls });
    true
}

/// The descriptor with which the current thread's call goes on, after its own descriptor was
/// closed. The caller gives the descriptor back. A task already has the descriptor.
pub(crate) fn goes_on_with(number: usize) -> Option<usize> {
    if current().task.get().is_some() {
        return None;
    }
    let kept = current().waits_for.get();
    let mut locked = lock();
    let is_kept = kept != number && KEPT.of(&mut locked).iter().any(|other| other.number == kept);
    is_kept.then_some(kept)
}

/// Closes a descriptor of [`goes_on_with`] when the last call that used it has ended.
pub(crate) fn give_back(locked: &mut Locked, number: usize) {
    let all = KEPT.of(locked);
    let Some(place) = all.iter().position(|kept| kept.number == number) else { return };
    assert!(all[place].users > 0, "a descriptor is kept for no call");
    all[place].users -= 1;
    if all[place].users == 0 {
        all.swap_remove(place);
        if let Some(descriptor) = get(number) {
            descriptor.forget(number);
        }
        locked.released(|| sys!(SYS_close, number));
    }
}

/// Called when the task's call is over, or a thread has made the call.
pub(crate) fn end_call(task: TaskRef) {
    if let Some(kept) = task.take_kept() {
        give_back(&mut lock(), kept);
    }
}

/// Ends a wait for several descriptors. Takes the wait's nodes out of their lists, and gives back
/// the descriptors that were kept for the wait.
pub(crate) fn end_wait(locked: &mut Locked, nodes: &[PollNode]) {
    for node in nodes {
        node.unlink(locked);
        if let Some(kept) = node.kept(locked.held()) {
            give_back(locked, kept);
        }
    }
}

/// The numbers of descriptors that are kept, which the program does not close.
pub(crate) fn numbers() -> Vec<usize> {
    KEPT.of(&mut lock()).iter().map(|kept| kept.number).collect()
}

/// Called in the child of a fork, since the calls belong to the parent.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    for kept in KEPT.of(locked).drain(..) {
        sys!(SYS_close, kept.number);
    }
}
