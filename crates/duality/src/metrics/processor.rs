//! The processor time of a server: of this process, of its living children, and of its ended
//! children.

use std::fs;

use duality_architectures::usage;

/// Reads it.
#[derive(Debug)]
pub(super) struct Processor {
    /// Whether there are child processes.
    forks: bool,
    /// The highest value so far, in microseconds.
    highest: u64,
}

impl Processor {
    pub(super) fn new(forks: bool) -> Self {
        Self { forks, highest: 0 }
    }

    /// Seconds so far. The value never falls: if a child ends between two looks, the next call
    /// counts it.
    pub(super) fn seconds(&mut self) -> f64 {
        let ended = usage::of_this_process().cpu_us;
        let living = if self.forks { of_living_children() } else { 0 };
        self.highest = self.highest.max(ended + living);
        self.highest as f64 / 1e6
    }
}

/// Microseconds of the children of this process. Each has one kernel thread.
fn of_living_children() -> u64 {
    let of_thread = |thread: fs::DirEntry| {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let of_child = |child: &str| {
            let path = format!("/proc/{child}/schedstat");
            nanoseconds(&fs::read_to_string(path).unwrap_or_default())
        };
        children.split_whitespace().map(of_child).sum::<u64>()
    };
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.map(of_thread).sum::<u64>() / 1000
}

/// The first number of a `schedstat`: the time for which a kernel thread ran.
fn nanoseconds(schedstat: &str) -> u64 {
    schedstat.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_thread_is_read() {
        assert_eq!(nanoseconds("123456 789 10\n"), 123_456);
        assert_eq!(nanoseconds(""), 0);
    }

    #[test]
    fn time_never_becomes_less() {
        let mut processor = Processor::new(true);
        let first = processor.seconds();
        assert!(first > 0.0 && processor.seconds() >= first);
    }
}
