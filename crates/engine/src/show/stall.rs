//! Reports which thread of a converted program holds its loop, and in which function.
//!
//! A task gives way at its calls. A task that computes for long holds up the others of its loop,
//! and users see a server that hangs. Ticks measure processor time, so they never disturb a program
//! that waits.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::entry::settings;
use crate::kernel::lock::{Setting, lock};
use crate::schedule::loops::{self, LongTurn};
use crate::schedule::task::{Task, TaskRef};
use crate::schedule::worker::current;
use crate::show::report::{say, text};
use crate::show::symbols;
use crate::show::unwind::Cursor;

/// Without `DUALITY_STALL`, after so many milliseconds.
const DEFAULT: u64 = 1000;

/// The function that the runtime gave as `name` of `ENGINE_LOOP`, which returns the name of a task.
pub(crate) static NAMES: Setting<usize> = Setting::new(0);
type Naming = extern "C" fn(TaskRef) -> usize;

/// By default, print one line only: the line says how to find out more.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Called when the turn of the current thread is over. Reports its task, if the task has run for
/// too long.
pub(crate) fn look() {
    let asked_for = settings::HELD.get();
    let longest = asked_for.unwrap_or(DEFAULT) * 1_000_000;
    if longest == 0 {
        return;
    }
    let held = loops::has_held(&mut lock(), longest);
    let Some(held) = held else { return };
    if asked_for.is_some() || !TOLD.swap(true, Ordering::Relaxed) {
        tell(&held, asked_for.is_none());
    }
}

fn tell(held: &LongTurn, is_default: bool) {
    let task = Task::of(held.task);
    let mut name = [0; 16];
    let name = text(name_of(task, &mut name));
    let mut function = [0; 128];
    let (function, address) = function_at(&mut function);
    let milliseconds = held.nanoseconds / 1_000_000;
    let remedy = if is_default { "; DUALITY_STALL=1000 tells each time" } else { "" };
    say(format_args!(
        "thread {:#x}{}{name} has held loop {} for {milliseconds} ms, in {function} (at {address:#x}): \
         the others of the loop wait (duality_detach, DUALITY_CORES){remedy}",
        &raw const *task as usize,
        if name.is_empty() { "" } else { " " },
        held.number,
    ));
}

fn name_of(task: TaskRef, into: &mut [u8]) -> &[u8] {
    let naming = NAMES.get();
    if naming == 0 {
        return b"";
    }
    // SAFETY: the runtime gave a function of this type.
    let naming: Naming = unsafe { core::mem::transmute(naming) };
    crate::kernel::user::read_text(naming(task), into).unwrap_or(b"")
}

/// The program's innermost function, library functions skipped, and its address in the program's
/// file. Without symbols in that file, the name is "the program".
fn function_at(into: &mut [u8]) -> (&str, u64) {
    const DEEPEST: usize = 32;
    let mut locked = lock();
    let mut at = Cursor::at(current().place.get());
    for _ in 0..DEEPEST {
        let Some(cursor) = at else { break };
        let Some(object) = cursor.object(&mut locked) else { break };
        if object.is_program() {
            let address = cursor.address() - object.base;
            drop(locked);
            let name = symbols::name_of(address, into).map_or("", text);
            // The compiler turns `f` into `f.async.resume`.
            return match name.split('.').next() {
                Some(plain) if !plain.is_empty() => (plain, address),
                _ => ("the program", address),
            };
        }
        let functions = object.functions;
        at = cursor.caller(functions);
    }
    ("a library", 0)
}
