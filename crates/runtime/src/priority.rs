//! Real-time priority, for a kernel thread that must be on time and does little work.

use std::io;

/// The lowest real-time priority: above all ordinary threads, and below all other real-time
/// threads.
const LOWEST: libc::c_int = 1;

/// Runs the calling kernel thread before all ordinary ones, as soon as it is ready (`SCHED_FIFO`,
/// sched(7)). Threads that it starts afterwards run with the same priority.
///
/// A thread that never waits would keep all others off its processor. The kernel takes a twentieth
/// of each second from such a thread.
///
/// # Errors
///
/// `EPERM` without CAP_SYS_NICE or an RLIMIT_RTPRIO, or in a control group without real time.
pub fn real_time() -> io::Result<()> {
    // SAFETY: the structure has only numbers. Some C libraries have more of them than the kernel
    // reads.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = LOWEST;
    // musl refuses its own function, which POSIX defines for processes. The kernel's call is for
    // threads. SAFETY: 0 is the calling thread, and the kernel only reads the parameters.
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
        // The test uses a separate thread, since other threads of this process must stay as they
        // are.
        let asked = std::thread::spawn(real_time).join().expect("it does not panic");
        if let Err(error) = asked {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        }
    }
}
