//! Kernel threads that code of a simulated host starts.
//!
//! Such a thread must end by itself, as one that only needs a larger stack does. It runs before its
//! starter goes on, so that no two threads of a simulation run at once. A thread that waits for
//! something never ends then, and is the failure of the simulation.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::outside::{self, Inherited};

use crate::sleeps::really;
use crate::{genuine, place};

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    Start,
    *mut c_void,
) -> libc::c_int;

/// How often the starter looks whether the thread has ended, and the time between looks.
const LOOKS: u32 = 20_000;
const PAUSE: Duration = Duration::from_micros(100);

/// A thread of a simulated host.
struct Thread {
    start: Start,
    argument: *mut c_void,
    inherited: Inherited,
    has_ended: Arc<AtomicBool>,
}

/// pthread_create(3). Within a simulation, it returns after the end of the thread.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> libc::c_int {
    // SAFETY: this is the function's type.
    let own: Create = unsafe { std::mem::transmute(genuine(c"pthread_create")) };
    let Some(inherited) = outside::inherit() else {
        // SAFETY: the arguments are the caller's.
        return unsafe { own(thread, attributes, start, argument) };
    };
    let has_ended = Arc::new(AtomicBool::new(false));
    let body = Box::new(Thread { start, argument, inherited, has_ended: has_ended.clone() });
    let body = Box::into_raw(body);
    // SAFETY: the thread gets the box.
    let error = unsafe { own(thread, attributes, run, body.cast()) };
    if error != 0 {
        // SAFETY: no thread has got the box.
        drop(unsafe { Box::from_raw(body) });
        return error;
    }
    for _ in 0..LOOKS {
        if has_ended.load(Ordering::Acquire) {
            return 0;
        }
        // The clock of `std` is the simulation's, so this waits by the machine's.
        really(PAUSE);
    }
    outside::refuse(format!(
        "a simulated host has a kernel thread that waits, started{}: use task::spawn or \
         task::offload",
        place()
    ));
    0
}

extern "C" fn run(body: *mut c_void) -> *mut c_void {
    // SAFETY: the starter has given the box to this thread alone.
    let body = unsafe { Box::from_raw(body.cast::<Thread>()) };
    let Thread { start, argument, inherited, has_ended } = *body;
    outside::adopt(inherited);
    let result = start(argument);
    has_ended.store(true, Ordering::Release);
    result
}
