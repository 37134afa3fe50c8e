//! What the kernel says of a thread that has the turn and does not give it back.

use std::fmt;
use std::fs;

/// A thread that sleeps in the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sleep {
    /// How often it has lost its processor. Between two looks of one sleep, this does not change.
    switches: u64,
    /// The system call in which it sleeps, if the kernel says so.
    call: Option<i64>,
}

impl Sleep {
    /// The sleep of a thread of this process now. `None` if the thread runs, waits for a processor
    /// or a disk, or if the kernel does not say.
    pub(super) fn of(thread: u32) -> Option<Self> {
        let read = |name| fs::read_to_string(format!("/proc/self/task/{thread}/{name}")).ok();
        let switches = switches(&read("status")?)?;
        // A thread that runs has the word "running" there.
        let call = read("syscall").and_then(|text| text.split(' ').next()?.trim().parse().ok());
        Some(Self { switches, call })
    }
}

/// The switches of a thread that sleeps, by the text of its status.
fn switches(status: &str) -> Option<u64> {
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let sleeps = field("State:")?.starts_with('S');
    let count = |name| field(name)?.parse::<u64>().ok();
    let switches = count("voluntary_ctxt_switches:")? + count("nonvoluntary_ctxt_switches:")?;
    sleeps.then_some(switches)
}

impl fmt::Display for Sleep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(call) = self.call else { return formatter.write_str("a system call") };
        match call {
            libc::SYS_futex => formatter.write_str("futex(2), as at a lock of std"),
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => {
                formatter.write_str("clock_nanosleep(2), as std::thread::sleep does")
            }
            libc::SYS_read => formatter.write_str("read(2)"),
            libc::SYS_recvfrom => formatter.write_str("recv(2)"),
            libc::SYS_accept4 => formatter.write_str("accept(2)"),
            libc::SYS_ppoll => formatter.write_str("ppoll(2)"),
            libc::SYS_epoll_pwait => formatter.write_str("epoll_pwait(2)"),
            libc::SYS_wait4 => formatter.write_str("wait4(2)"),
            number => write!(formatter, "system call {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let status = |state| {
            format!(
                "Name:\thost\nState:\t{state}\nvoluntary_ctxt_switches:\t12\n\
                 nonvoluntary_ctxt_switches:\t3\n"
            )
        };
        assert_eq!(switches(&status("S (sleeping)")), Some(15));
        for state in ["R (running)", "D (disk sleep)", "T (stopped)"] {
            assert_eq!(switches(&status(state)), None, "{state}");
        }
        assert_eq!(switches("State:\tS (sleeping)\n"), None);
    }

    #[test]
    fn a_call_is_named() {
        let told = |call| Sleep { switches: 0, call }.to_string();
        assert_eq!(told(Some(libc::SYS_futex)), "futex(2), as at a lock of std");
        assert_eq!(told(Some(9_999)), "system call 9999");
        assert_eq!(told(None), "a system call");
    }
}
