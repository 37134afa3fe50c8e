//! The processor time of threads: clock_gettime(2), clock_getres(2), getrusage(2).

use crate::kernel::clock::{Nanoseconds, timespec};
use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::sys::failed;
use crate::kernel::user;
use crate::schedule::processor_time;
use crate::schedule::thread::{self, ThreadRef};
use crate::schedule::worker::current;

/// clock_gettime(2)
pub(crate) fn clock_gettime(frame: &mut Frame) -> isize {
    let Some(thread) = thread_of_clock(frame.argument(0) as i32) else { return frame.pass() };
    let time = timespec(processor_time::of(&mut lock(), thread));
    user::write(frame.argument(1), &time).map_or_else(|fault| fault, |()| 0)
}

/// clock_getres(2): the clocks of all threads have one resolution.
pub(crate) fn clock_getres(frame: &mut Frame) -> isize {
    let mut own = *frame;
    if thread_of_clock(frame.argument(0) as i32).is_some() {
        own.set_argument(0, libc::CLOCK_THREAD_CPUTIME_ID as usize);
    }
    own.pass()
}

/// The thread of ours that a clock belongs to: the current thread, or another one
/// (pthread_getcpuclockid(3)).
fn thread_of_clock(clock: i32) -> Option<ThreadRef> {
    /// The low bits of such a clock: the time that the scheduler counts, of a thread.
    const KIND: i32 = 2 | 4;
    /// The clock has room for 29 bits of a thread's number.
    const LOST: i32 = 1 << 29;
    /// The kernel's other clocks have lower numbers.
    const FEW: i32 = 64;
    if clock == libc::CLOCK_THREAD_CPUTIME_ID {
        return Some(current());
    }
    // A large number of a thread makes a positive clock.
    if (0..FEW).contains(&clock) || clock & 7 != KIND {
        return None;
    }
    let id = !(clock >> 3) & (LOST - 1);
    if id == 0 {
        return Some(current());
    }
    let mut locked = lock();
    [id, id | LOST].into_iter().find_map(|id| thread::find(&mut locked, id))
}

/// getrusage(2): the kernel counts the times of the worker.
pub(crate) fn getrusage(frame: &mut Frame) -> isize {
    let result = frame.pass();
    if frame.argument(0) as i32 != libc::RUSAGE_THREAD || failed(result) {
        return result;
    }
    let own = processor_time::of(&mut lock(), current());
    share(frame.argument(1), own).map_or_else(|fault| fault, |()| 0)
}

/// Gives the user time and the system time of a `struct rusage` the sum `own`, in their ratio.
fn share(address: usize, own: Nanoseconds) -> Result<(), isize> {
    const MILLION: u128 = 1_000_000;
    let worker: [[u64; 2]; 2] = user::read(address)?;
    let [user, system] =
        worker.map(|[seconds, rest]| u128::from(seconds) * MILLION + u128::from(rest));
    let own = u128::from(own / 1000);
    let system = (own * system).checked_div(user + system).unwrap_or(0);
    let times =
        [own - system, system].map(|time| [(time / MILLION) as u64, (time % MILLION) as u64]);
    user::write(address, &times)
}
