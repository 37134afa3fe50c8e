//! The resources that a peer's tree of processes has used, from /proc.
//!
//! Processor time is exact to the nanosecond for threads that live. For ended threads and for ended
//! children that were waited for, the time is known to a tick of 10 ms. If a parent ignores
//! SIGCHLD, the time of its ended children is lost. Context switches are those of living threads.

use std::fs;
use std::time::Duration;

use crate::measure::observe::counters::{self, Counters};

/// A process and all its descendants, itself first.
pub(super) fn of(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        for thread in threads(parent) {
            let path = format!("/proc/{parent}/task/{thread}/children");
            tree.extend(numbers(&fs::read_to_string(path).unwrap_or_default()));
        }
        next += 1;
    }
    tree
}

/// The resources that the processes of a tree have used, with their memory if asked.
pub(super) fn counters(tree: &[u32], with_memory: bool) -> Counters {
    let mut total = Counters::default();
    for &pid in tree {
        let used = of_process(pid);
        total.cpu_us += used.cpu_us;
        total.voluntary_switches += used.voluntary_switches;
        total.involuntary_switches += used.involuntary_switches;
    }
    if with_memory {
        total.peak_bytes = match tree {
            [] => 0,
            [alone] => counters::peak_memory(*alone),
            [root, others @ ..] => counters::shared_memory(*root, others),
        };
    }
    total
}

/// The resources of a process and of its ended children.
fn of_process(pid: u32) -> Counters {
    let tasks: Vec<String> =
        threads(pid).map(|thread| format!("/proc/{pid}/task/{thread}")).collect();
    let mut total = counters::of_tasks(tasks.iter().map(String::as_str));
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let (own, children) = times(&stat, rustix::param::clock_ticks_per_second());
    // The threads' sum misses ended threads, and the process's count misses parts of a tick.
    // Neither of the two sums is too high.
    total.cpu_us = total.cpu_us.max(own) + children;
    total
}

/// The processor time of ended children of the tree's processes that were waited for, in ticks of
/// 10 ms.
pub(super) fn of_ended_children(tree: &[u32]) -> Duration {
    let of = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        times(&stat, rustix::param::clock_ticks_per_second()).1
    };
    Duration::from_micros(tree.iter().map(of).sum())
}

/// Processor time of a process and of its children that have ended, in microseconds
/// (proc_pid_stat(5)).
pub(crate) fn times(stat: &str, ticks_per_second: u64) -> (u64, u64) {
    // The name of the program is in parentheses, and may contain anything.
    let fields: Vec<u64> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
        .unwrap_or_default();
    let sum = |first: usize| -> u64 {
        let ticks: u64 = fields.get(first..first + 2).unwrap_or_default().iter().sum();
        ticks.saturating_mul(1_000_000) / ticks_per_second.max(1)
    };
    (sum(11), sum(13))
}

fn threads(pid: u32) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split_whitespace().filter_map(|number| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn times_are_found_behind_a_program_of_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 99 98 0 0 150 50 30 20 20 0 3 0 1";
        assert_eq!(times(stat, 100), (2_000_000, 500_000));
        assert_eq!(times("", 100), (0, 0));
    }

    #[test]
    fn descendants_count_and_so_do_those_that_have_ended() {
        // Two resting processes beneath the first, which has waited for a child that worked.
        let script =
            "i=0; (while [ $i -lt 200000 ]; do i=$((i+1)); done); echo; (sleep 60; :) & wait";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut byte = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        let mut tree = of(child.id());
        while tree.len() < 3 {
            tree = of(child.id());
        }
        let counted = counters(&tree, true);
        assert!(counted.cpu_us > 10_000, "{counted:?}");
        assert!(counted.peak_bytes > 0 && counted.voluntary_switches > 0, "{counted:?}");
        for pid in tree.iter().rev() {
            let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        child.wait().unwrap();
    }
}
