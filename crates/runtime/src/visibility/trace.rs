//! Finds the place of a parked user-level thread, and of a busy kernel thread.
//!
//! A parked user-level thread walks its own stack. Its loop runs the walk on top of the thread's
//! suspended frames. So no code unwinds a stack that is not running. The walk only collects
//! addresses. The code that prints them finds their names, on a stack with room for it.
//!
//! A busy kernel thread is asked by a signal. The handler notes the interrupted instruction. The
//! handler cannot find out more, because a walk of the stack may take locks.

use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{Advice, madvise};

/// The most frames of a stack that are noted.
const FRAMES: usize = 48;

/// Bytes of stack that a walk gets. The walk needs some 4 KiB. Lazy binding of the unwinder's
/// symbols needs more, on machines with large vector registers.
const ROOM: usize = 16 * 1024;

/// The addresses of a stack's frames, the innermost first.
pub type Trace = Vec<usize>;

/// Walks the calling stack. `None` if the stack may lack the room.
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

/// Whether the calling stack has [`ROOM`] left. The function asks the kernel to make this memory
/// readable (Linux 5.14). The kernel refuses if any of it is a guard. The memory is not written.
fn has_room() -> bool {
    let page = rustix::param::page_size();
    let here = (&raw const page).addr() & !(page - 1);
    let lowest = std::ptr::without_provenance_mut(here - ROOM);
    // SAFETY: this advice changes no memory, whatever the address.
    unsafe { madvise(lowest, ROOM, Advice::LinuxPopulateRead) }.is_ok()
}

/// The functions of a stack, a line for each, the innermost first. The language's own functions are
/// left out, and this crate's functions beneath a wait. A function that the compiler has merged
/// into its caller may have lost its name, but not its place.
#[must_use]
pub fn name_frames(trace: &[usize]) -> Vec<String> {
    let mut lines = Vec::new();
    for &address in trace {
        for function in functions_at(address) {
            if function.name.contains(BASE) {
                return lines;
            }
            if !function.is_machinery() {
                lines.push(function.to_string());
            }
        }
    }
    lines
}

/// The function of an instruction, and the functions that it was merged into, the innermost first.
#[must_use]
pub fn name_instruction(instruction: usize) -> Vec<String> {
    // A return address follows its call, and the look-up subtracts one. Add one, so that it names
    // this instruction.
    functions_at(instruction.saturating_add(1)).iter().map(Function::to_string).collect()
}

/// The first function of a fiber: all functions above it are the loop's.
const BASE: &str = "duality_runtime::event_loop::park::fiber";

/// Crates, and their sources, with functions that reveal nothing about a task's wait.
const MACHINERY: &[(&str, &str)] = &[
    ("core::", "/library/core/"),
    ("alloc::", "/library/alloc/"),
    ("std::", "/library/std/"),
    ("backtrace::", "/backtrace-"),
    ("duality_fiber::", "/fiber/src/"),
];

/// Functions of this crate that are beneath every wait.
const OWN_MACHINERY: &[&str] =
    &["event_loop/", "visibility/", "world/", "net/socket.rs", "sync/wait_queue.rs"];

/// A function of the program, and the place of an instruction in it.
struct Function {
    name: String,
    /// The path as the compiler recorded it.
    file: Option<String>,
    line: u32,
}

fn functions_at(address: usize) -> Vec<Function> {
    let mut functions = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        functions.push(Function {
            // The alternate form has no hash at the end of the name.
            name: symbol.name().map_or_else(|| "?".into(), |name| format!("{name:#}")),
            file: symbol.filename().map(|file| file.to_string_lossy().into_owned()),
            line: symbol.lineno().unwrap_or(0),
        });
    });
    functions
}

impl Function {
    fn is_machinery(&self) -> bool {
        let Some(file) = &self.file else {
            let name = self.name.trim_start_matches('<');
            return MACHINERY.iter().any(|(prefix, _)| name.starts_with(prefix));
        };
        let own = file!().trim_end_matches("visibility/trace.rs");
        let is_own = file
            .split_once(own)
            .is_some_and(|(_, inner)| OWN_MACHINERY.iter().any(|prefix| inner.starts_with(prefix)));
        is_own || MACHINERY.iter().any(|(_, folder)| file.contains(folder))
    }
}

impl fmt::Display for Function {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(file) = &self.file else { return formatter.write_str(&self.name) };
        // A merged function leaves a name such as `{async_fn#0}` or `read<…>`, without its path.
        match self.name.split_once('<') {
            _ if self.name.starts_with('{') => {}
            Some((bare, _)) if !bare.is_empty() && !bare.contains("::") => {
                write!(formatter, "{bare} at ")?;
            }
            _ => write!(formatter, "{} at ", self.name)?,
        }
        write!(formatter, "{}:{}", last_components(file), self.line)
    }
}

/// The part of a path that is enough to find the file.
fn last_components(path: &str) -> &str {
    const KEPT: usize = 4;
    path.rmatch_indices('/').nth(KEPT - 1).map_or(path, |(slash, _)| &path[slash + 1..])
}

/// The instruction that the last asked thread had reached. 0 before its answer.
static SAMPLED: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler that [`sample`] needs, for SIGURG, which has no other use.
///
/// # Errors
///
/// The errors of `sigaction(2)`.
pub fn install_sampling() -> io::Result<()> {
    // SAFETY: all zeroes are a valid `sigaction`: no flags, an empty mask, the default handler.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = note_instruction as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    // SAFETY: the action is valid, and its handler is async-signal-safe.
    if unsafe { libc::sigaction(libc::SIGURG, &action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn note_instruction(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: a handler that was installed with SA_SIGINFO gets the interrupted context from the
    // kernel.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let instruction = context.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let instruction = context.pc as usize;
    SAMPLED.store(instruction, Ordering::Release);
}

/// Asks a kernel thread of this process for its present instruction. `None` if it does not answer
/// at once. One caller at a time.
#[must_use]
pub fn sample(thread: u32) -> Option<usize> {
    const ATTEMPTS: u32 = 1000;
    SAMPLED.store(0, Ordering::Relaxed);
    // SAFETY: tgkill(2) has no preconditions, and the signal has the handler that was installed for
    // it or is ignored.
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
        // A statement after the call, so that the call is not a tail call, which would replace this
        // function's frame.
        std::hint::black_box(capture())
    }

    #[test]
    fn a_walk_names_its_callers() {
        let trace = a_function_of_this_test().expect("a test's stack has room");
        // `name_frames` takes functions of this module for machinery.
        let mut functions = trace.iter().flat_map(|&address| functions_at(address));
        assert!(functions.any(|function| function.name.contains("a_function_of_this_test")));
    }

    #[test]
    fn a_small_stack_is_not_walked() {
        let stack = duality_fiber::Stack::new(12 * 1024).unwrap();
        let walked = std::rc::Rc::new(std::cell::Cell::new(true));
        let seen = walked.clone();
        let fiber = duality_fiber::Fiber::new(stack, move || seen.set(capture().is_some()));
        assert!(fiber.resume());
        assert!(!walked.get());
    }

    #[test]
    fn a_busy_thread_tells_where_it_is() {
        install_sampling().unwrap();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (sender, thread) = std::sync::mpsc::channel();
        let spinner = std::thread::spawn({
            let stop = stop.clone();
            move || {
                sender
                    .send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs())
                    .unwrap();
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
