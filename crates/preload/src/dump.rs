//! All threads, listed on a signal.

use crate::lock::Locked;
use crate::report::{say, text};
use crate::table;
use crate::thread::{State, THREADS};

/// Every thread, and what it does.
pub(crate) fn dump(locked: &mut Locked) {
    let threads = THREADS.of(locked);
    say(format_args!("{} threads", threads.alive));
    for thread in threads.iter() {
        let id = thread.id.get();
        let name = thread.name.get();
        let name = text(&name);
        match thread.state.get() {
            State::Parked => say(format_args!(
                "thread {id} {name}: parked in {}({:#x})",
                table::name(thread.call.get()),
                thread.waits_for.get(),
            )),
            State::Running => {
                say(format_args!("thread {id} {name}: running"));
            }
            State::Ready => say(format_args!("thread {id} {name}: ready")),
            State::Dead => {}
        }
    }
}
