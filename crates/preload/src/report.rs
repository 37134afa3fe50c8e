//! What the engine tells: counters at the end, all threads on a signal, and its own failures.

use core::fmt::{self, Write};

use crate::context::Context;
use crate::lock::lock;
use crate::objects::Unpatchable;
use crate::regions;
use crate::settings;
use crate::stats;
use crate::sys;
use crate::table;
use crate::thread::{State, THREADS, Thread};

/// A line, written to standard error at once.
struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.length < self.bytes.len() {
                self.bytes[self.length] = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// Writes one line.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 512], length: 0 };
    // A line has no failures: what is too long is cut.
    let _infallible = writeln!(line, "duality run: {text}");
    sys::complain(&line.bytes[..line.length]);
}

/// Text of the program's, as far as it is text.
fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    core::str::from_utf8(&bytes[..end]).unwrap_or("?")
}

/// A system call that would run natively, and block everything.
pub(crate) fn unpatchable(site: &Unpatchable) {
    let object = if site.object.is_empty() { "the program" } else { text(&site.object) };
    say(format_args!(
        "the system call at {:#x} of {object} cannot be intercepted; run the program without duality",
        site.address
    ));
}

/// A thread ran out of stack, if it was that.
pub(crate) fn stack_overflow(thread: &Thread, info: &libc::siginfo_t) {
    // SAFETY: the signal of a fault has the address 16 bytes from the start.
    let address = unsafe { (&raw const *info).cast::<usize>().add(2).read() };
    if regions::is_guard(address) {
        say(format_args!(
            "thread {} ({}), started at {:#x}, has used up its stack; raise it with --stack-size",
            thread.id.get(),
            text(&thread.name.get()),
            thread.routine.get()
        ));
    }
}

/// The engine itself failed.
pub(crate) fn engine_fault(number: i32, context: &Context) {
    say(format_args!(
        "signal {number} inside the engine, at {:#x}, address {:#x}, call {}; please report it",
        context.rip,
        context.fault_address,
        table::name(crate::worker::current().call.get())
    ));
}

/// The counters, if they were asked for.
pub(crate) fn at_exit() {
    if !settings::STATS.get() {
        return;
    }
    let mut locked = lock();
    let threads = THREADS.of(&mut locked);
    say(format_args!(
        "threads {} created, {} at most; switches {}; parks {}; looks at descriptors {}; offloads {}; preemptions {}; sites {}",
        stats::THREADS_CREATED.get(),
        threads.most,
        stats::SWITCHES.get(),
        stats::PARKS.get(),
        stats::LOOKS.get(),
        stats::OFFLOADS.get(),
        stats::PREEMPTIONS.get(),
        stats::SITES.get(),
    ));
}

/// Every thread, and what it does.
pub(crate) fn dump(locked: &mut crate::lock::Locked) {
    let threads = THREADS.of(locked);
    say(format_args!("{} threads", threads.alive));
    for thread in threads.iter() {
        let id = thread.id.get();
        let name = thread.name.get();
        let name = text(&name);
        let routine = thread.routine.get();
        match thread.state.get() {
            State::Parked => say(format_args!(
                "thread {id} {name}: parked in {}({:#x}), started at {routine:#x}",
                table::name(thread.call.get()),
                thread.waits_for.get(),
            )),
            State::Running => say(format_args!("thread {id} {name}: running, started at {routine:#x}")),
            State::Ready => say(format_args!("thread {id} {name}: ready, started at {routine:#x}")),
            State::Dead => {}
        }
    }
}
