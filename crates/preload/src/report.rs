//! What the engine tells: counters at the end, all threads on a signal, and its own failures.

use core::fmt::{self, Write};

use crate::context::Context;
use crate::lock::{Locked, Setting, lock};
use crate::settings;
use crate::stacks;
use crate::stats;
use crate::sys;
use crate::thread::{THREADS, Thread};

/// What lists all threads, for the signal that asks for it.
pub(crate) static DUMP: Setting<Option<fn(&mut Locked)>> = Setting::new(None);

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
pub(crate) fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    core::str::from_utf8(&bytes[..end]).unwrap_or("?")
}

/// A system call that would run natively, and block everything.
pub(crate) fn unpatchable(object: &[u8], address: u64) {
    let object = if object.is_empty() { "the program" } else { text(object) };
    say(format_args!(
        "the system call at {address:#x} of {object} cannot be intercepted; run the program without duality"
    ));
}

/// A thread ran out of stack, if it was that.
pub(crate) fn stack_overflow(thread: &Thread, info: &libc::siginfo_t) {
    // SAFETY: the signal of a fault has the address 16 bytes from the start.
    let address = unsafe { (&raw const *info).cast::<usize>().add(2).read() };
    if stacks::is_guard(address) {
        say(format_args!(
            "thread {} ({}) has used up its stack; raise it with --stack-size",
            thread.id.get(),
            text(&thread.name.get())
        ));
    }
}

/// The engine itself failed.
pub(crate) fn engine_fault(number: i32, context: &Context) {
    say(format_args!(
        "signal {number} inside the engine, at {:#x}, address {:#x}, call {}; please report it",
        context.rip,
        context.fault_address,
        crate::worker::current().call.get()
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

/// A call that the kernel kept for longer than `--stall` allows.
#[cold]
pub(crate) fn stall(name: &str, nanoseconds: u64) {
    say(format_args!("{name} kept all threads waiting for {} ms", nanoseconds / 1_000_000));
}
