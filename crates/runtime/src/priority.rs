//! Real-time priority, for a kernel thread that must be on time and does little.

use std::io;

/// The lowest real-time priority: above all ordinary threads, below everything that others run in
/// real time.
const LOWEST: libc::c_int = 1;

/// Runs the calling kernel thread before all ordinary ones, as soon as it is ready (`SCHED_FIFO`,
/// sched(7)). The threads that it starts afterwards do the same.
///
/// A thread that never waits would keep all others off its processor. The kernel takes a twentieth
/// of each second from such a thread.
///
/// # Errors
///
/// `EPERM` without CAP_SYS_NICE or an RLIMIT_RTPRIO, or in a control group without real time.
pub fn real_time() -> io::Result<()> {
    // SAFETY: it has numbers only, and of some C libraries more than the kernel reads.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = LOWEST;
    // musl refuses the library's call, which POSIX has for processes. The kernel's is for threads.
    // SAFETY: 0 is the calling thread, and the kernel only reads the parameters.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const parameters)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_had_or_refused_for_lack_of_a_privilege() {
        // A thread of its own, since others of this process are to stay as they are.
        let asked = std::thread::spawn(real_time).join().expect("it does not panic");
        if let Err(error) = asked {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        }
    }
}
