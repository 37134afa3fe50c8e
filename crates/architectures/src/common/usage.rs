//! The resources that this process and its reaped children have used (`getrusage(2)`).

use std::mem;

/// Processor time, context switches and page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time in microseconds.
    pub cpu_us: u64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because a thread's time was up or another came first.
    pub involuntary_switches: u64,
    /// Page faults without disk reads: the kernel gave or copied a page at its first use.
    pub page_faults: u64,
}

/// The usage of this process and its reaped children together.
pub fn of_this_process() -> Usage {
    let (own, children) = (usage(libc::RUSAGE_SELF), usage(libc::RUSAGE_CHILDREN));
    Usage {
        cpu_us: own.cpu_us + children.cpu_us,
        voluntary_switches: own.voluntary_switches + children.voluntary_switches,
        involuntary_switches: own.involuntary_switches + children.involuntary_switches,
        page_faults: own.page_faults + children.page_faults,
    }
}

fn usage(whose: libc::c_int) -> Usage {
    // SAFETY: all zeroes is a valid `rusage`, and getrusage fills in the whole of it. With these
    // two targets it cannot fail.
    let raw = unsafe {
        let mut raw: libc::rusage = mem::zeroed();
        libc::getrusage(whose, &mut raw);
        raw
    };
    let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Usage {
        cpu_us: microseconds(raw.ru_utime) + microseconds(raw.ru_stime),
        voluntary_switches: raw.ru_nvcsw as u64,
        involuntary_switches: raw.ru_nivcsw as u64,
        page_faults: raw.ru_minflt as u64,
    }
}
