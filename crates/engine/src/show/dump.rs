//! All threads and their stacks, listed on a signal.

use crate::kernel::lock::Locked;
use crate::schedule::thread::{self, THREADS, ThreadRef};
use crate::schedule::waiter::State;
use crate::schedule::worker::current;
use crate::show::report::{self, say, text};
use crate::show::unwind::Cursor;

/// The number of callers that a list shows.
const DEEPEST: usize = 48;

/// Lists every thread with its state.
pub(crate) fn dump(locked: &mut Locked) {
    let alive = THREADS.of(locked).alive;
    say(format_args!("{alive} threads"));
    let mut each = thread::each(locked);
    while let Some(thread) = each.next(locked.held()) {
        let held = locked.held();
        let id = thread.id.get();
        let name = thread.name.get(held);
        let name = text(&name);
        match thread.state.get(held) {
            State::Parked => say(format_args!(
                "thread {id} {name}: parked in {}({:#x})",
                report::name(thread.call.get()),
                thread.waits_for.get(),
            )),
            State::Running => say(format_args!("thread {id} {name}: running")),
            State::Ready => say(format_args!("thread {id} {name}: ready")),
            State::Dead => continue,
        }
        // The stack of a thread that another worker runs changes while it is read.
        if thread.state.get(held) != State::Running || thread.is(current()) {
            stack(locked, thread);
        }
    }
}

/// Prints the place where a thread left its own code, and its callers. Each is an object and an
/// offset, as addr2line(1) takes them.
fn stack(locked: &mut Locked, thread: ThreadRef) {
    let mut at = Cursor::at(thread.place.get());
    for depth in 0..DEEPEST {
        let Some(cursor) = at else { return };
        let address = cursor.address();
        let Some(object) = cursor.object(locked) else {
            return say(format_args!("  #{depth} {address:#x}"));
        };
        let name = text(&object.name);
        say(format_args!("  #{depth} {name}+{:#x}", address - object.base));
        at = cursor.caller(object.functions);
    }
    say(format_args!("  and more"));
}
