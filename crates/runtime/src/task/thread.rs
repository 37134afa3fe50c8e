//! Kernel threads, made by `pthread_create(3)` itself.
//!
//! `std::thread` gives each thread a signal stack, to report overflows. This stack costs five
//! system calls over a thread's life, as much as the thread itself. An architecture with a thread
//! for each connection must compare with C servers of this design. So it makes plain threads:
//! detached, with a stack of a chosen size and glibc's guard page below. Overflows are still
//! reported, for the price of one system call ([`run_watched`]).

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use duality_fiber::overflow::{KernelStack, LARGER, run_watched};

use crate::drain::{self, Scope};
use crate::event_loop::current;
use crate::threads::{self, Threads};
use crate::visibility::{self, thread_slots};

/// The function that a kernel thread runs.
pub type ThreadBody = Box<dyn FnOnce() + Send>;

/// The stack of a kernel thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadStack(KernelStack);

impl ThreadStack {
    /// A stack of `size` bytes, chosen by the user. The report of an overflow names the `owner`,
    /// such as "a helper thread".
    #[must_use]
    pub const fn chosen(size: usize, owner: &'static str) -> Self {
        Self(KernelStack { owner, size, remedy: LARGER })
    }

    /// A stack with a size that users cannot choose.
    #[must_use]
    pub const fn fixed(size: usize, owner: &'static str) -> Self {
        let remedy = "its size is fixed; look for a recursion without an end";
        Self(KernelStack { owner, size, remedy })
    }

    /// The bytes of stack to request. glibc takes the guard from them.
    fn length(self) -> usize {
        let page = rustix::param::page_size();
        let length = self.0.size + KernelStack::beside_calls() + page;
        length.max(libc::PTHREAD_STACK_MIN).next_multiple_of(page)
    }
}

/// A thread that the kernel refused. The error returns the body, so that the caller can try again.
pub struct Refused {
    /// The reason: `EAGAIN` for a limit on threads or memory.
    pub error: io::Error,
    /// The function that the thread should have run.
    pub body: ThreadBody,
}

impl fmt::Debug for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

/// Starts a detached kernel thread. A panic in `body` is reported and ends the thread. An overflow
/// of its `stack` is reported and ends the process.
///
/// # Errors
///
/// [`Refused`] if no thread can be made.
pub fn start(stack: ThreadStack, body: ThreadBody) -> Result<(), Refused> {
    if let Some(threads) = threads::here() {
        return start_simulated(&*threads, stack, body);
    }
    if current::machine().is_some() {
        let problem = "a simulated host has no kernel threads beside its loop: use task::spawn";
        return Err(Refused { error: io::Error::new(io::ErrorKind::Unsupported, problem), body });
    }
    let argument = Box::into_raw(Box::new(Start { stack, body, scope: Scope::here() }));
    match create(stack.length(), argument.cast()) {
        0 => Ok(()),
        error => {
            // SAFETY: no thread was made, so the box that was leaked above is still ours.
            let start = *unsafe { Box::from_raw(argument) };
            Err(Refused { error: io::Error::from_raw_os_error(error), body: start.body })
        }
    }
}

/// Starts a kernel thread of a simulated host.
#[cold]
fn start_simulated(
    threads: &dyn Threads,
    stack: ThreadStack,
    body: ThreadBody,
) -> Result<(), Refused> {
    // The body comes back if the thread is refused.
    let kept = Arc::new(Mutex::new(Some(body)));
    let (given, scope) = (kept.clone(), Scope::here());
    let take = |kept: &Mutex<Option<ThreadBody>>| {
        kept.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let started = threads.start(Box::new(move || {
        if let Some(body) = take(&given) {
            Start { stack, body, scope }.run();
        }
    }));
    started.map_err(|error| {
        let body = take(&kept).expect("a thread that was refused has not taken its body");
        Refused { error, body }
    })
}

/// The data for a new thread.
struct Start {
    stack: ThreadStack,
    body: ThreadBody,
    /// The scope of the thread that starts this thread.
    scope: Option<Scope>,
}

impl Start {
    /// What the thread does, on a stack that is watched. A panic ends the thread.
    fn run(self) {
        let Self { stack, body, scope } = self;
        let _slot = thread_slots::occupy();
        visibility::count(|counters| {
            counters.threads_created.add(1);
            counters.task_stack_allocated_bytes.add(stack.0.size as u64);
        });
        drain::within(scope.as_ref(), || super::contain(body));
    }
}

fn create(stack_size: usize, argument: *mut c_void) -> i32 {
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    if cfg!(miri) {
        // Miri's kernel threads have no attributes, and their stacks have no size.
        let argument = argument.expose_provenance();
        std::thread::spawn(move || {
            main(ptr::with_exposed_provenance_mut(argument));
        });
        return 0;
    }
    // SAFETY: the attributes are initialised before use and destroyed after. Size and state are
    // valid for them. `main` takes the passed argument exactly once.
    unsafe {
        let error = libc::pthread_attr_init(attributes.as_mut_ptr());
        if error != 0 {
            return error;
        }
        let attributes = attributes.as_mut_ptr();
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(attributes, stack_size);
        let error = libc::pthread_create(thread.as_mut_ptr(), attributes, main, argument);
        libc::pthread_attr_destroy(attributes);
        error
    }
}

extern "C" fn main(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` leaked this box for this thread alone.
    let start = *unsafe { Box::from_raw(argument.cast::<Start>()) };
    let stack = start.stack.0;
    // SAFETY: this is the thread's first function, and `create` made a stack of this length.
    // `Start::run` stops panics.
    unsafe { run_watched(stack, move || start.run()) };
    ptr::null_mut()
}
