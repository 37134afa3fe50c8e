//! Stack overflows, reported by name.
//!
//! ```text
//!   a fiber's stack                        this kernel thread's signal stack
//!   │ guard │ ◀── one call too deep        │ guard │ ◀── handler: which guard? │
//!      ▲                                       one line to standard error, SIGABRT
//!      └─ SIGSEGV ─────────────────────────────▶
//! ```
//!
//! The handler knows the running fiber of its kernel thread, and so the only guard that can have
//! been hit. If [`run_watched`] runs the thread, the handler also knows the thread's own stack.
//! Every other fault goes to the previous handler. The previous handler is the kernel's default, or
//! std's handler. Std's handler knows the main thread and the threads that std has made.
//!
//! A watched kernel thread has its signal stack within its own stack, at the far end from the
//! guard:
//!
//! ```text
//!   │ guard │ ◀── the thread's calls ─┤ signal stack ├─ pthread_create's own │
//!   low addresses
//! ```
//!
//! So a signal stack costs one system call, and no memory unless a signal comes.
//!
//! The handler cannot see one case. A *system call* with a buffer in a guard fails with `EFAULT`
//! ("Bad address") and raises no signal. The case is rare: the calls that lead to the system call
//! write to the stack below the buffer, and the handler sees these writes. In the rare case, the
//! operation returns that error. Nothing else is harmed, since the kernel has written nothing
//! beyond the stack.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt::{self, Write};
use std::io;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, transmute};
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::{Once, OnceLock};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;

use crate::fiber::here::HERE;
use crate::switch::call_on;

/// Writes the name of the running fiber, such as "task 17".
pub type Name = fn(&mut dyn Write) -> fmt::Result;

/// Watches the fibers that run on this kernel thread for overflows, until the result is dropped.
///
/// The first call in a process installs the handler of SIGSEGV for good; only its `name` is used. A
/// kernel thread without a signal stack gets one.
///
/// # Safety
///
/// `name` runs in a signal handler. `name` must be async-signal-safe (signal-safety(7)): no
/// allocation, no lock, no wait, no panic.
///
/// # Errors
///
/// Returns the errors of mmap(2) and sigaltstack(2), if memory is lacking.
pub unsafe fn watch(name: Name) -> io::Result<Watch> {
    let stack = if has_signal_stack()? { None } else { Some(SignalStack::new()?) };
    NAME.get_or_init(|| name);
    INSTALLED.call_once(install);
    Ok(Watch { _stack: stack, _here: PhantomData })
}

/// The stack of a kernel thread, as a report of its overflow describes it.
#[derive(Clone, Copy, Debug)]
pub struct KernelStack {
    /// The owner of the stack, such as "a helper thread".
    pub owner: &'static str,
    /// The bytes for calls.
    pub size: usize,
    /// The remedy for an overflow.
    pub remedy: &'static str,
}

impl KernelStack {
    /// The bytes that the stack needs beside its guard and the bytes for calls.
    #[must_use]
    pub fn beside_calls() -> usize {
        within_stack_size() + MARGIN
    }
}

/// Room above a signal stack within its thread's stack, for the frames of the functions that begin
/// the thread.
const MARGIN: usize = 4096;

/// Runs `body`, the whole work of this kernel thread, and reports an overflow of its stack.
///
/// # Safety
///
/// The thread has just begun, and less than 2 KiB of its stack are in use. The stack has room for
/// `stack.size` bytes and [`beside_calls`](KernelStack::beside_calls). `body` does not panic.
pub unsafe fn run_watched<F: FnOnce()>(stack: KernelStack, body: F) {
    /// # Safety
    ///
    /// `body` points to an `Option<F>` that no other code uses during the call.
    unsafe extern "C" fn call<F: FnOnce()>(body: *mut ()) {
        // SAFETY: the caller promises that `body` points to an option.
        let body = unsafe { (*body.cast::<Option<F>>()).take() };
        if let Some(body) = body {
            body();
        }
    }
    if cfg!(any(feature = "sanitizer", miri)) {
        // The sanitizer has given the thread a signal stack, and takes it back when the thread
        // ends. Miri knows no signals.
        return body();
    }
    INSTALLED.call_once(install);
    let mut body = Some(body);
    let (here, size) = (below_the_caller(), within_stack_size());
    let lowest = ptr::with_exposed_provenance_mut::<u8>(here - size);
    OWN.set(Some(Own { stack, top: here }));
    let signals = libc::stack_t { ss_sp: lowest.cast(), ss_flags: 0, ss_size: size };
    // SAFETY: the caller promises that the range is a part of this thread's stack. The range is
    // below all present frames and above all later frames, since the calls of `body` begin below
    // the range. The signal stack ends with the thread. If the kernel refuses the signal stack, an
    // overflow is not reported. `call` does not unwind: it is `extern "C"`.
    unsafe {
        libc::sigaltstack(&raw const signals, ptr::null_mut());
        call_on((&raw mut body).cast(), call::<F>, lowest);
    }
}

/// Returns an address below the frame of the caller, a multiple of 16. The words that the next call
/// pushes lie above it.
#[inline(never)]
fn below_the_caller() -> usize {
    /// Larger than the frame of this function, and than the frame of a function that is about to
    /// switch stacks.
    const PUSHED: usize = 256;
    let here = 0_u8;
    (std::hint::black_box(&raw const here).expose_provenance() - PUSHED) & !15
}

/// A kernel thread's own stack, as the handler knows it.
#[derive(Clone, Copy)]
struct Own {
    stack: KernelStack,
    /// An address near the end of the stack where calls begin.
    top: usize,
}

impl Own {
    /// Whether a fault at `address` is an overflow of this stack. Only the stack's guard is
    /// inaccessible.
    fn is_hit(&self, address: usize) -> bool {
        // The length includes the guard, and the bytes that rounding to pages adds.
        let length = self.stack.size + KernelStack::beside_calls() + 2 * page_size();
        (self.top.saturating_sub(length)..self.top).contains(&address)
    }
}

thread_local! {
    /// Constant-initialised: a signal handler reads it.
    static OWN: Cell<Option<Own>> = const { Cell::new(None) };
}

/// Overflows of this kernel thread are reported while this value lives.
#[must_use]
pub struct Watch {
    _stack: Option<SignalStack>,
    /// A signal stack belongs to its kernel thread.
    _here: PhantomData<*mut ()>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watch").finish_non_exhaustive()
    }
}

static NAME: OnceLock<Name> = OnceLock::new();
static INSTALLED: Once = Once::new();
/// The handler that was installed before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

fn install() {
    let mut previous = MaybeUninit::uninit();
    // SAFETY: the call writes to the action, and installs nothing. The call fails for bad arguments
    // only.
    let previous = unsafe {
        libc::sigaction(libc::SIGSEGV, ptr::null(), previous.as_mut_ptr());
        previous.assume_init()
    };
    PREVIOUS.get_or_init(|| previous);
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
    // SAFETY: all of the action may be zero: no flags, an empty mask. The handler has the signature
    // that SA_SIGINFO asks for, and does only what is safe in a handler.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else { return };
    // SAFETY: the kernel gives a valid record of the signal.
    let (address, sent) = unsafe { ((*info).si_addr() as usize, (*info).si_code <= 0) };
    if !sent && let Some(size) = overflowed_size(address) {
        report_fiber(size);
    }
    if !sent && let Some(own) = OWN.get().filter(|own| own.is_hit(address)) {
        let KernelStack { owner, size, remedy } = own.stack;
        report(size, remedy, |line| line.write_str(owner));
    }
    pass_on(previous, signal, info, context, sent);
}

/// The requested stack size, in whole pages. The fiber is the running fiber, or the fiber that a
/// function runs on top of. `None` if `address` is not in the guard of that stack.
fn overflowed_size(address: usize) -> Option<usize> {
    let here = HERE.with(|here| [here.running.get(), here.on_top_of.get()]);
    let fiber = here.into_iter().find(|fiber| !fiber.is_null())?;
    // SAFETY: the fiber is alive. The fiber's resumer, or a function on top of the fiber, borrows
    // the fiber. The drop, which runs the last function on the stack, borrows the fiber too.
    let stack = unsafe { &(*fiber).stack };
    let guard = stack.guard();
    (guard..guard + page_size()).contains(&address).then(|| stack.size())
}

fn report_fiber(size: usize) -> ! {
    report(size, LARGER, |line| match NAME.get() {
        Some(name) => name(line),
        None => line.write_str("a user-level thread"),
    })
}

/// The remedy for an overflow of a stack of configurable size.
pub const LARGER: &str = "give it a larger one (--stack-size)";

fn report(size: usize, remedy: &str, name: impl FnOnce(&mut dyn Write) -> fmt::Result) -> ! {
    let mut line = Line { text: [0; 256], length: 0 };
    // A longer name is cut off.
    let _ = name(&mut line)
        .and_then(|()| write!(line, " has overflowed its stack of {} KiB: {remedy}", size / 1024));
    line.text[line.length] = b'\n';
    let text = &line.text[..=line.length];
    // SAFETY: descriptor 2 is standard error or its replacement. If it is closed, the write returns
    // an error.
    let _ = rustix::io::write(unsafe { BorrowedFd::borrow_raw(2) }, text);
    // SAFETY: abort(3) is safe in a handler, and does not return.
    unsafe { libc::abort() }
}

/// Passes the signal on to the handler that was installed before.
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
            // SAFETY: restoring the default is valid. A fault happens again as soon as the handler
            // returns. A signal from another process must be sent again.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if sent {
                    libc::raise(signal);
                }
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the code that installed the handler with SA_SIGINFO promised this signature.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: the code that installed the handler without SA_SIGINFO promised this
            // signature.
            let handler: extern "C" fn(c_int) = unsafe { transmute(handler) };
            handler(signal);
        }
    }
}

/// A line that is composed without allocating. The line leaves room for its end.
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

/// The signal stack of this kernel thread, with a guard page below it.
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
        // SAFETY: the memory stays mapped until the drop takes the signal stack out of service.
        match unsafe { libc::sigaltstack(&raw const usable, ptr::null_mut()) } {
            0 => Ok(stack),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the signal stack is this kernel thread's, since the watch stays on the thread.
        // The stack is not in use: no handler is below us. A stack out of service can be unmapped,
        // and unmapping cannot fail.
        unsafe {
            libc::sigaltstack(&raw const none, ptr::null_mut());
            let _ = munmap(self.lowest, self.length);
        }
    }
}

fn has_signal_stack() -> io::Result<bool> {
    let mut current = MaybeUninit::uninit();
    // SAFETY: the call writes to the state, and changes nothing.
    match unsafe { libc::sigaltstack(ptr::null(), current.as_mut_ptr()) } {
        // SAFETY: the call has written to `current`.
        0 => Ok(unsafe { current.assume_init() }.ss_flags & libc::SS_DISABLE == 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Room for what the kernel pushes, and 16 KiB.
fn signal_stack_size() -> usize {
    pushed_by_the_kernel() + 16 * 1024
}

/// Room for what the kernel pushes, and as much as std's signal stacks leave to a handler. More
/// would cost memory: when a thread ends, glibc keeps the first 16 KiB of its stack for the next
/// thread. The calls of both threads should lie in these 16 KiB.
fn within_stack_size() -> usize {
    (pushed_by_the_kernel() + 4608).max(8 * 1024).next_multiple_of(16)
}

/// This number of bytes grows with the vector registers of the machine.
fn pushed_by_the_kernel() -> usize {
    /// A constant of getauxval(3), which the `libc` crate has only for other systems.
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    if cfg!(miri) {
        return libc::MINSIGSTKSZ;
    }
    // SAFETY: the call has no preconditions. The call returns 0 for an unknown type.
    let pushed = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    pushed.max(libc::MINSIGSTKSZ)
}
