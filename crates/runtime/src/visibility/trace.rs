//! Where a parked user-level thread is, and where a busy kernel thread is.
//!
//! A parked user-level thread tells by itself: its loop resumes it in order to have it walk its own stack
//! and park again, so that nobody unwinds a stack that is not running. The walk only gathers addresses;
//! whoever prints them finds their names, on a stack with room for it.
//!
//! A kernel thread that computes is asked by a signal, whose handler notes the interrupted instruction:
//! more than that a handler cannot find out, for what walks a stack may take locks.

use std::io;
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{Advice, madvise};

/// Frames of a stack that are noted.
const FRAMES: usize = 48;

/// Bytes of stack that a walk gets. It needs some 4 KiB; binding the symbols of the unwinder lazily, on a
/// machine with large vector registers, some more.
const ROOM: usize = 16 * 1024;

/// The addresses of a stack's frames, the innermost first.
pub type Trace = Vec<usize>;

/// Walks the stack that this is called on; `None` where it may lack the room.
#[inline(never)]
pub(crate) fn capture() -> Option<Trace> {
    if !has_room() {
        return None;
    }
    let mut trace = Vec::with_capacity(FRAMES);
    backtrace::trace(|frame| {
        trace.push(frame.ip().addr());
        trace.len() < FRAMES
    });
    Some(trace)
}

/// Whether the stack that this is called on has [`ROOM`] left: the kernel is asked to make that memory
/// readable (Linux 5.14), and refuses where any of it is a guard. It is not written to.
fn has_room() -> bool {
    let page = rustix::param::page_size();
    let here = (&raw const page).addr() & !(page - 1);
    let lowest = std::ptr::without_provenance_mut(here - ROOM);
    // SAFETY: this advice changes no memory, whatever the address.
    unsafe { madvise(lowest, ROOM, Advice::LinuxPopulateRead) }.is_ok()
}

/// The functions of a stack and where in them it stands, a line for each that is not part of the language's
/// own machinery or of this crate's beneath a wait, the innermost first.
#[must_use]
pub fn name_frames(trace: &[usize]) -> Vec<String> {
    let mut lines = Vec::new();
    for &address in trace {
        let functions = functions_at(address);
        if functions.iter().any(|function| function.contains(BASE)) {
            break;
        }
        lines.extend(functions.into_iter().filter(|function| {
            let name = function.trim_start_matches('<');
            !MACHINERY.iter().any(|prefix| name.starts_with(prefix))
        }));
    }
    lines
}

/// The function that an instruction belongs to, and those that it was inlined into, the innermost first.
#[must_use]
pub fn name_instruction(instruction: usize) -> Vec<String> {
    // What returns to an address called from before it, so the address before this one would be named.
    functions_at(instruction.saturating_add(1))
}

fn functions_at(address: usize) -> Vec<String> {
    let mut functions = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        // The alternate form has no hash at its end.
        let name = symbol.name().map_or_else(|| "?".into(), |name| format!("{name:#}"));
        functions.push(match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!("{name} at {}:{line}", last_components(file)),
            _ => name,
        });
    });
    functions
}

/// The function that a fiber begins with: what is above it is the loop.
const BASE: &str = "duality_runtime::world::park::fiber";

/// Where functions come from that say nothing about what a task waits for.
const MACHINERY: &[&str] = &[
    "core::",
    "alloc::",
    "std::",
    "backtrace::",
    "corosensei::",
    "duality_fiber::",
    "duality_runtime::event_loop::",
    "duality_runtime::net::socket::",
    "duality_runtime::sync::queue::",
    "duality_runtime::visibility::",
    "duality_runtime::world::",
];

/// Enough of a path to find the file.
fn last_components(path: &Path) -> String {
    const KEPT: usize = 4;
    let components: Vec<_> = path.iter().map(|component| component.to_string_lossy()).collect();
    components[components.len().saturating_sub(KEPT)..].join("/")
}

/// The instruction that the last thread which was asked had reached; 0 before it answers.
static SAMPLED: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler that [`sample`] needs, for SIGURG, which otherwise nobody uses.
///
/// # Errors
///
/// Those of `sigaction(2)`.
pub fn install_sampling() -> io::Result<()> {
    // SAFETY: all zeroes is a valid `sigaction`: no flags, an empty mask, the default handler.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = note_instruction as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    // SAFETY: the action is valid, and its handler does only what a handler may.
    if unsafe { libc::sigaction(libc::SIGURG, &action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn note_instruction(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler that was installed with SA_SIGINFO the interrupted context.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let instruction = context.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let instruction = context.pc as usize;
    SAMPLED.store(instruction, Ordering::Release);
}

/// Asks a kernel thread of this process for the instruction that it executes; `None` when it does not
/// answer at once. One caller at a time.
#[must_use]
pub fn sample(thread: u32) -> Option<usize> {
    const ATTEMPTS: u32 = 1000;
    SAMPLED.store(0, Ordering::Relaxed);
    // SAFETY: tgkill(2) has no preconditions, and the signal has the handler that was installed for it or
    // is ignored.
    let asked = unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread as libc::pid_t, libc::SIGURG)
    };
    if asked != 0 {
        return None;
    }
    (0..ATTEMPTS).find_map(|_| {
        std::thread::yield_now();
        match SAMPLED.swap(0, Ordering::Acquire) {
            0 => None,
            instruction => Some(instruction),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_of_this_test() -> Option<Trace> {
        // Something to do after the call, which otherwise takes this function's place on the stack.
        std::hint::black_box(capture())
    }

    #[test]
    fn a_walk_names_its_callers() {
        let trace = a_function_of_this_test().expect("a test's stack has room");
        // Those of this module are machinery to `name_frames`.
        let names: Vec<_> = trace.iter().flat_map(|&address| functions_at(address)).collect();
        assert!(names.iter().any(|name| name.contains("a_function_of_this_test")), "{names:?}");
    }

    #[test]
    fn a_small_stack_is_not_walked() {
        let stack = duality_fiber::Stack::new(12 * 1024).unwrap();
        let walked = std::rc::Rc::new(std::cell::Cell::new(true));
        let told = walked.clone();
        let mut fiber = duality_fiber::Fiber::new(stack, move || told.set(capture().is_some()));
        assert!(fiber.resume());
        assert!(!walked.get());
    }

    #[test]
    fn a_busy_thread_tells_where_it_is() {
        install_sampling().unwrap();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (told, thread) = std::sync::mpsc::channel();
        let spinner = std::thread::spawn({
            let stop = stop.clone();
            move || {
                told.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        let thread = thread.recv().unwrap();
        let found = (0..1000).find_map(|_| sample(thread));
        stop.store(true, Ordering::Relaxed);
        spinner.join().unwrap();
        assert!(found.is_some());
    }
}
