//! Reports which thread of a converted program computes for long, and in which function.
//!
//! A task gives way at its calls. A task that computes past its turn leaves its loop with its
//! thread (`schedule/loops.rs`). Where it cannot leave, it holds up the others of its loop, and
//! users see a server that hangs. Ticks measure processor time, so they never disturb a program
//! that waits.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::kernel::lock::lock;
use crate::kernel::settings;
use crate::schedule::converted;
use crate::schedule::loops::{self, LongTurn};
use crate::schedule::task::Task;
use crate::schedule::worker::current;
use crate::show::report::{say, text};
use crate::show::symbols;
use crate::show::unwind::Cursor;

/// Without `DUALITY_STALL`, after so many milliseconds.
const DEFAULT: u64 = 1000;

/// By default, print one line only: the line says how to find out more.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Called when the turn of the current thread is over. Reports its task, if the task has run for
/// too long.
pub(crate) fn look() {
    let asked_for = settings::HELD.get();
    let longest = asked_for.unwrap_or(DEFAULT) * 1_000_000;
    let held = loops::has_held(&mut lock(), longest);
    let Some(held) = held else { return };
    if asked_for.is_some() || !TOLD.swap(true, Ordering::Relaxed) {
        tell(&held, asked_for.is_none());
    }
}

fn tell(held: &LongTurn, is_default: bool) {
    let task = Task::of(held.task);
    let mut name = [0; 16];
    let name = text(converted::name(task, &mut name));
    let mut function = [0; 128];
    let (function, address) = function_at(&mut function);
    let milliseconds = held.nanoseconds / 1_000_000;
    let remedy = if is_default { "; DUALITY_STALL=1000 tells each time" } else { "" };
    let number = held.number;
    let thread = format_args!("{:#x}", &raw const *task as usize);
    let space = if name.is_empty() { "" } else { " " };
    if held.has_left {
        say(format_args!(
            "thread {thread}{space}{name} has computed for {milliseconds} ms, in {function} (at \
             {address:#x}): beside loop {number}, with a stack of its own until it waits{remedy}",
        ));
    } else {
        say(format_args!(
            "thread {thread}{space}{name} has held loop {number} for {milliseconds} ms, in {function} \
             (at {address:#x}): the others of the loop wait (duality_detach, DUALITY_CORES){remedy}",
        ));
    }
}

/// Whether the current thread is in the program's code, or in a library that this code has called.
/// Otherwise the runtime is at work, or the stack is that of a library without tables.
pub(crate) fn is_in_program() -> bool {
    innermost(false).is_some_and(|(address, _)| !converted::is_runtime(address))
}

/// The program's innermost function, library functions skipped. Its address in the program's file
/// comes with it. Without symbols in that file, the name is "the program".
fn function_at(into: &mut [u8]) -> (&str, u64) {
    let Some((_, address)) = innermost(true) else { return ("a library", 0) };
    let name = symbols::name_of(address, into).map_or("", text);
    // The compiler turns `f` into `f.async.resume`.
    match name.split('.').next() {
        Some(plain) if !plain.is_empty() => (plain, address),
        _ => ("the program", address),
    }
}

/// The innermost address in the program's file: in memory, and in the file. Functions of libraries
/// are skipped, and on request those of the runtime.
fn innermost(skips_runtime: bool) -> Option<(u64, u64)> {
    const DEEPEST: usize = 64;
    let mut locked = lock();
    let mut at = Cursor::at(current().place.get());
    for _ in 0..DEEPEST {
        let cursor = at?;
        let object = cursor.object(&mut locked)?;
        let address = cursor.address();
        if object.is_program() && !(skips_runtime && converted::is_runtime(address)) {
            return Some((address, address - object.base));
        }
        let functions = object.functions;
        at = cursor.caller(functions);
    }
    None
}
