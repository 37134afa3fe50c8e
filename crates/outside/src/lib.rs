//! Answers code that asks the machine for something that a simulation decides. On a kernel thread
//! that simulates, the answer is the simulation's own. So `Instant::now()`, `SystemTime::now()` and
//! the order of a `HashMap` are the same whenever a seed runs. A name is that of a simulated host.
//! A kernel thread runs before its starter goes on, and one that waits is refused. A sync of a file
//! on a host's disk is noted. A listener of `std` binds no port of the machine, and a connection of
//! `std` is refused.
//!
//! The crate defines symbols of the C library. A program that links it calls these functions, and
//! so does `std`. Link it into tests alone, as a dev-dependency, since each call costs more there:
//!
//! ```
//! use duality_outside as _;
//! ```
//!
//! `duality simulate --tls` preloads this crate as an object, without the feature `linked`.
//!
//! A library that makes system calls by its own instructions is not answered. rustix is one, unless
//! its feature `use-libc` is on.

#[cfg(not(feature = "linked"))]
mod asked;
mod calls;
mod clocks;
mod connections;
mod files;
mod kernel;
mod names;
mod processes;
mod random;
mod sleeps;
mod sockets;
mod threads;

use std::backtrace::Backtrace;
use std::ffi::{CStr, c_int, c_void};

#[cfg(not(feature = "linked"))]
use asked as outside;
#[cfg(feature = "linked")]
use duality_simulate::outside;

/// The C library's own function of a name that this crate defines.
fn genuine(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a string of C.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has {name:?}: link it dynamically");
    found
}

/// Has the call of C fail.
fn fail(error: c_int) -> c_int {
    // SAFETY: the place belongs to this thread.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// ` at FILE:LINE` of the code that calls, as far as it is known.
fn place() -> String {
    caller(&Backtrace::force_capture().to_string())
}

/// The first place of a backtrace that is neither here nor in the standard library.
fn caller(trace: &str) -> String {
    let mut places = trace.lines().filter_map(|line| line.trim().strip_prefix("at "));
    let is_ours = |place: &&str| !place.contains("/rustc/") && !place.contains("outside/src/");
    places.find(is_ours).map_or(String::new(), |place| format!(" at {place}"))
}
