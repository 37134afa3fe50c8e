//! Stack overflows, reported by name.
//!
//! ```text
//!   a fiber's stack                        this kernel thread's signal stack
//!   │ guard │ ◀── one call too deep        │ guard │ ◀── handler: whose guard? │
//!      ▲                                       one line to standard error, SIGABRT
//!      └─ SIGSEGV ─────────────────────────────▶
//! ```
//!
//! The handler knows the running fiber of its kernel thread, hence the one guard that can have been
//! hit. Every other fault goes to the handler that was there before: std's, which names the kernel
//! thread whose own stack has overflowed, or the kernel's default.
//!
//! What it cannot see: a *system call* that is given a buffer in a guard fails with `EFAULT` ("Bad
//! address") and raises no signal. It is rare, for the calls that lead to it write to the stack below
//! the buffer, and that is seen. Where it happens, the operation returns that error; nothing else is
//! harmed, since the kernel has written nothing beyond the stack.

use std::ffi::{c_int, c_void};
use std::fmt::{self, Write};
use std::io;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, transmute};
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::OnceLock;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;

use crate::here::HERE;

/// Writes what the running fiber is called, such as "task 17". It runs in a signal handler: it must not
/// allocate, lock or wait.
pub type Name = fn(&mut dyn Write) -> fmt::Result;

/// Watches the fibers that run on this kernel thread for overflows, until the result is dropped.
///
/// The first call in a process installs the handler of SIGSEGV for good, and its `name` is the one that
/// is used. A kernel thread without a signal stack is given one.
///
/// # Errors
///
/// Those of mmap(2) and sigaltstack(2), for want of memory.
pub fn watch(name: Name) -> io::Result<Watch> {
    static HANDLER: OnceLock<()> = OnceLock::new();
    let stack = if has_signal_stack()? { None } else { Some(SignalStack::new()?) };
    HANDLER.get_or_init(|| install(name));
    Ok(Watch { _stack: stack, _here: PhantomData })
}

/// This kernel thread's overflows are reported while this lives.
#[must_use]
pub struct Watch {
    _stack: Option<SignalStack>,
    /// A signal stack belongs to its kernel thread.
    _here: PhantomData<*mut ()>,
}

struct Installed {
    name: Name,
    previous: libc::sigaction,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

fn install(name: Name) {
    let mut previous = MaybeUninit::uninit();
    // SAFETY: the action is written to, and nothing is installed. It fails for bad arguments only.
    let previous = unsafe {
        libc::sigaction(libc::SIGSEGV, ptr::null(), previous.as_mut_ptr());
        previous.assume_init()
    };
    INSTALLED.get_or_init(|| Installed { name, previous });
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
    // SAFETY: all of it may be zero: no flags, an empty mask. The handler has the signature that
    // SA_SIGINFO asks for, and does only what is safe in one.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(installed) = INSTALLED.get() else { return };
    // SAFETY: the kernel gives a valid record of the signal.
    let (address, sent) = unsafe { ((*info).si_addr() as usize, (*info).si_code <= 0) };
    if !sent && let Some(size) = overflowed_size(address) {
        report(installed.name, size);
    }
    pass_on(&installed.previous, signal, info, context, sent);
}

/// The size that was asked for the stack of the fiber that runs or is visited, in whole pages, if `address` is in the
/// guard below it.
fn overflowed_size(address: usize) -> Option<usize> {
    let here = HERE.with(|here| [here.running.get(), here.visited.get()]);
    let fiber = here.into_iter().find(|fiber| !fiber.is_null())?;
    // SAFETY: it is alive: what runs or visits it borrows it, and so does its drop, which visits it last.
    let stack = unsafe { &(*fiber).stack };
    let guard = stack.guard();
    (guard..guard + page_size()).contains(&address).then(|| stack.size())
}

fn report(name: Name, size: usize) -> ! {
    let mut line = Line { text: [0; 256], length: 0 };
    // What does not fit is cut off.
    let _ = name(&mut line)
        .and_then(|()| write!(line, " has overflowed its stack of {} KiB", size / 1024))
        .and_then(|()| line.write_str(": give it a larger one (--stack-size)"));
    line.text[line.length] = b'\n';
    let text = &line.text[..=line.length];
    // SAFETY: descriptor 2 is standard error, or whatever the program has made of it, or an error.
    let _ = rustix::io::write(unsafe { BorrowedFd::borrow_raw(2) }, text);
    // SAFETY: it is safe in a handler, and does not return.
    unsafe { libc::abort() }
}

/// Does what would have been done without this handler.
fn pass_on(
    previous: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    sent: bool,
) {
    match previous.sa_sigaction {
        libc::SIG_IGN if sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: it is valid to restore the default. A fault happens again as soon as the handler
            // returns; what another process has sent must be sent again.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if sent {
                    libc::raise(signal);
                }
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: whoever installed it with SA_SIGINFO promised this signature.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: whoever installed it without SA_SIGINFO promised this signature.
            let handler: extern "C" fn(c_int) = unsafe { transmute(handler) };
            handler(signal);
        }
    }
}

/// A line that is put together without allocating; room is left for its end.
struct Line {
    text: [u8; 256],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = &mut self.text[self.length..255];
        let fits = part.len().min(room.len());
        room[..fits].copy_from_slice(&part.as_bytes()[..fits]);
        self.length += fits;
        if fits == part.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// A stack for signal handlers, with a guard page below it, in the service of this kernel thread.
struct SignalStack {
    lowest: *mut c_void,
    length: usize,
}

impl SignalStack {
    fn new() -> io::Result<Self> {
        let page = page_size();
        let usable = signal_stack_size().next_multiple_of(page);
        let length = page + usable;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let lowest = unsafe { mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE)? };
        let stack = Self { lowest, length };
        // SAFETY: the page is the lowest of the mapping just made, which nothing uses yet.
        unsafe { mprotect(lowest, page, MprotectFlags::empty())? };
        let usable =
            libc::stack_t { ss_sp: lowest.wrapping_byte_add(page), ss_flags: 0, ss_size: usable };
        // SAFETY: the memory is there until the drop takes it out of service.
        match unsafe { libc::sigaltstack(&raw const usable, ptr::null_mut()) } {
            0 => Ok(stack),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the stack is this kernel thread's, since the watch stays on it, and it is not in use:
        // no handler is below us. Out of service, it can be unmapped, which cannot fail.
        unsafe {
            libc::sigaltstack(&raw const none, ptr::null_mut());
            let _ = munmap(self.lowest, self.length);
        }
    }
}

fn has_signal_stack() -> io::Result<bool> {
    let mut current = MaybeUninit::uninit();
    // SAFETY: the state is written to, and nothing is changed.
    match unsafe { libc::sigaltstack(ptr::null(), current.as_mut_ptr()) } {
        // SAFETY: it was written to.
        0 => Ok(unsafe { current.assume_init() }.ss_flags & libc::SS_DISABLE == 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the kernel pushes, which grows with the vector registers of the machine, and 16 KiB.
fn signal_stack_size() -> usize {
    /// Of getauxval(3), which the `libc` crate has for other systems only.
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: it has no preconditions, and gives 0 for what it does not know.
    let pushed = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    pushed.max(libc::MINSIGSTKSZ) + 16 * 1024
}
