//! The engine's reports: counters at the end, all threads on a signal, and its own failures.

use core::fmt::{self, Write};

use crate::kernel::lock::{Locked, Setting, lock};
use crate::kernel::lock_counts;
use crate::kernel::settings;
use crate::kernel::stats;
use crate::kernel::sys;
use crate::schedule::context::Context;
use crate::schedule::converted;
use crate::schedule::stacks;
use crate::schedule::thread::{THREADS, Thread};
use crate::show::unwind::Cursor;

/// Lists all threads, when the dump signal comes.
pub(crate) static DUMP: Setting<Option<fn(&mut Locked)>> = Setting::new(None);

/// The names of calls, from the table of calls.
pub(crate) static NAMES: Setting<Option<Naming>> = Setting::new(None);
type Naming = fn(u32) -> &'static str;

/// The name of a call.
pub(crate) fn name(call: u32) -> &'static str {
    NAMES.get().map_or("?", |names| names(call))
}

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
    // Writing a line never fails, because a long line is cut.
    let _infallible = writeln!(line, "duality {}: {text}", settings::command());
    sys::complain(&line.bytes[..line.length]);
}

/// The text of the program up to its first zero, or `?` if the bytes are not UTF-8.
pub(crate) fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    core::str::from_utf8(&bytes[..end]).unwrap_or("?")
}

/// Reports a system call that would run natively, and block the whole program.
pub(crate) fn unpatchable(object: &[u8], address: u64) {
    let object = if object.is_empty() { "the program" } else { text(object) };
    say(format_args!(
        "the system call at {address:#x} of {object} cannot be intercepted; run the program without duality"
    ));
}

/// Reports a stack overflow, if the fault hit a guard.
pub(crate) fn stack_overflow(thread: &Thread, info: &libc::siginfo_t, context: &Context) {
    // SAFETY: the signal of a fault has the address 16 bytes from the start.
    let address = unsafe { (&raw const *info).cast::<usize>().add(2).read() };
    if !stacks::is_guard(address) {
        return;
    }
    let mut locked = lock();
    let (id, name) = (thread.id.get(), thread.name.get(locked.held()));
    let name = text(&name);
    let remedy = if converted::exists() {
        "ask for a larger one with pthread_attr_setstacksize, or by ulimit -s"
    } else {
        "raise it with --stack-size"
    };
    match Cursor::of_context(context).start_routine(&mut locked) {
        Some((object, offset)) => say(format_args!(
            "thread {id} ({name}), which began at {}+{offset:#x}, has used up its stack; {remedy}",
            text(object)
        )),
        None => say(format_args!("thread {id} ({name}) has used up its stack; {remedy}")),
    }
}

/// Reports a failure of the engine itself.
pub(crate) fn engine_fault(number: i32, context: &Context) {
    say(format_args!(
        "signal {number} inside the engine, at {:#x}, address {:#x}, call {}; please report it",
        context.rip,
        context.fault_address,
        crate::schedule::worker::current().call.get()
    ));
}

/// Prints the counters, if the settings ask for them.
pub(crate) fn at_exit() {
    if !settings::STATS.get() {
        return;
    }
    let mut locked = lock();
    let threads = THREADS.of(&mut locked);
    say(format_args!(
        "threads {} created, {} at most; switches {}; parks {}; looks at descriptors {}; offloads {}; preemptions {}; signals {}; sites {}",
        stats::THREADS_CREATED.get(),
        threads.most,
        stats::SWITCHES.get(),
        stats::PARKS.get(),
        stats::LOOKS.get(),
        stats::OFFLOADS.get(),
        stats::PREEMPTIONS.get(),
        stats::SIGNALS.get(),
        stats::SITES.get(),
    ));
    if let Some(counts) = lock_counts::counts() {
        let each = |sum: u64, count: u64| sum / count.max(1);
        say(format_args!(
            "lock: taken {} times, held {} ns each; found taken {} times, waited {} ns each, slept {} times",
            counts.taken,
            each(counts.held, counts.taken),
            counts.contended,
            each(counts.waited, counts.contended),
            counts.slept,
        ));
    }
    parks_by_call();
}

/// The calls in which threads have parked, the most frequent first.
fn parks_by_call() {
    const SHOWN: usize = 12;
    let mut line = Line { bytes: [0; 512], length: 0 };
    let mut most = u64::MAX;
    let mut last = 0;
    for index in 0..SHOWN {
        // The next call in order. The next call has fewer parks, or equally many parks and a higher
        // number.
        let parks = |call: usize| stats::PARKS_IN[call].get();
        let follows = |&call: &usize| parks(call) < most || (parks(call) == most && call > last);
        let next = (0..stats::PARKS_IN.len())
            .filter(follows)
            .max_by_key(|&call| (parks(call), core::cmp::Reverse(call)));
        let Some(call) = next.filter(|&call| parks(call) > 0) else { break };
        (most, last) = (parks(call), call);
        let separator = if index == 0 { "" } else { ", " };
        let _infallible = write!(line, "{separator}{} {most}", name(call as u32));
    }
    if line.length > 0 {
        say(format_args!("parks by call: {}", text(&line.bytes[..line.length])));
    }
}

/// Reports a call that the kernel kept for longer than `--stall` allows.
#[cold]
pub(crate) fn stall(name: &str, nanoseconds: u64) {
    say(format_args!("{name} kept all threads waiting for {} ms", nanoseconds / 1_000_000));
}
