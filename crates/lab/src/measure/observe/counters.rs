//! The resources that a server has used: its own count, and the count of its living descendants
//! from /proc. The server can count descendants only once they have ended (fork, prefork).

use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::measure::machine::kibibytes;
use crate::record::Operations;

/// The most descendants for which the lab reads memory. It estimates the memory of further
/// descendants.
const SAMPLED: usize = 256;

/// Processor time, context switches and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub(crate) cpu_us: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    /// The counts of a server of ours. A peer counts nothing.
    #[serde(default)]
    pub(crate) operations: Operations,
    /// The number of open connections. A peer does not report it.
    #[serde(default)]
    pub(crate) connections_open: Option<u64>,
    /// How often the load generator waited for replies. Each wait ended when a reply woke it.
    #[serde(skip)]
    pub(crate) client_waits: u64,
    /// The lab knows this figure for a process, but the process itself does not.
    #[serde(default)]
    pub(crate) peak_bytes: u64,
}

impl Counters {
    /// The sum of these counts and those of another server.
    pub(crate) fn and(self, other: &Self) -> Self {
        Self {
            cpu_us: self.cpu_us + other.cpu_us,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
            operations: self.operations.and(&other.operations),
            connections_open: self.connections_open.zip(other.connections_open).map(|(a, b)| a + b),
            client_waits: self.client_waits,
            peak_bytes: self.peak_bytes + other.peak_bytes,
        }
    }
}

/// The processes that `parent` has made and that live.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The processor time of a process, ended threads included. The clock of the process counts
/// nanoseconds (clock_getcpuclockid(3)).
pub(crate) fn cpu_of(pid: u32) -> io::Result<Duration> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    let clock = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(pid))?;
    Ok(Duration::from(nix::time::clock_gettime(clock)?))
}

/// The processor time of a living process, and of other processes that may have ended meanwhile.
pub(crate) fn cpu_of_all(pid: u32, others: &[u32]) -> io::Result<Duration> {
    Ok(cpu_of(pid)? + cpu_of_living(others))
}

/// The processor time of the living processes among `children`.
pub(crate) fn cpu_of_living(children: &[u32]) -> Duration {
    children.iter().filter_map(|&pid| cpu_of(pid).ok()).sum()
}

/// Whether any of the process's children ended after taking processor time.
pub(crate) fn has_ended_children(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    // cutime and cstime of proc_pid_stat(5).
    fields.split_whitespace().skip(13).take(2).any(|ticks| ticks != "0")
}

/// The resources that living children have used. A child that ends meanwhile is left out, because
/// its parent counts it.
pub(crate) fn of_living(children: &[u32]) -> Counters {
    let folders: Vec<String> = children.iter().map(|pid| format!("/proc/{pid}")).collect();
    of_tasks(folders.iter().map(String::as_str))
}

/// The resources used by the first thread of each process (`/proc/PID`), or by any threads
/// (`/proc/PID/task/TID`).
pub(crate) fn of_tasks<'a>(folders: impl Iterator<Item = &'a str>) -> Counters {
    let mut total = Counters::default();
    for folder in folders {
        let Ok(schedule) = fs::read_to_string(format!("{folder}/schedstat")) else { continue };
        let Ok(status) = fs::read_to_string(format!("{folder}/status")) else { continue };
        total.cpu_us += first_number(&schedule) / 1000;
        total.voluntary_switches += status_number(&status, "voluntary_ctxt_switches");
        total.involuntary_switches += status_number(&status, "nonvoluntary_ctxt_switches");
        let stat = fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
        total.operations.page_faults += page_faults(&stat);
    }
    total
}

/// How often the kernel threads of this process, which makes the load, have waited so far.
pub(crate) fn own_waits() -> u64 {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let folders: Vec<String> =
        entries.filter_map(|entry| entry.path().to_str().map(str::to_owned)).collect();
    of_tasks(folders.iter().map(String::as_str)).voluntary_switches
}

/// The most memory that a process has had since it began its program, in bytes. `ru_maxrss` does
/// not suit: it includes the process before `exec`, which was a copy of this process.
pub(crate) fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or(0, kibibytes)
}

/// The memory of a server and its children in bytes. The figure is the sum of the processes' own
/// memory, in shares where several processes have a page. The mapped files of the largest process
/// count once. Shares of files would mislead: a program that several servers run would seem to take
/// less memory in each.
pub(crate) fn shared_memory(parent: u32, children: &[u32]) -> u64 {
    let own = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let of =
            |name| text.lines().find_map(|line: &str| line.strip_prefix(name)).map_or(0, kibibytes);
        of("Pss_Anon:") + of("Pss_Shmem:")
    };
    let files = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("RssFile:")).map_or(0, kibibytes)
    };
    let sampled = &children[..children.len().min(SAMPLED)];
    let sum: u64 = sampled.iter().map(|&pid| own(pid)).sum();
    let all =
        if sampled.is_empty() { 0 } else { sum * children.len() as u64 / sampled.len() as u64 };
    let mapped = sampled.iter().copied().chain([parent]).map(files).max().unwrap_or(0);
    own(parent) + all + mapped
}

/// The memory that processes have to themselves, in bytes: resident without files
/// (proc_pid_statm(5)). The call is quick, but counts a page that several processes share in each.
pub(crate) fn private_memory(processes: impl Iterator<Item = u32>) -> u64 {
    let own = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let mut fields = text.split_whitespace().skip(1).map_while(|field| field.parse().ok());
        let (resident, shared): (u64, u64) = (fields.next()?, fields.next()?);
        Some(resident.saturating_sub(shared))
    };
    processes.filter_map(own).sum::<u64>() * rustix::param::page_size() as u64
}

/// The tenth field of /proc/PID/stat (proc_pid_stat(5)). The second field may hold anything in its
/// parentheses.
fn page_faults(stat: &str) -> u64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(7).and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn first_number(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn status_number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map_or(0, first_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_status() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(status_number(status, "voluntary_ctxt_switches"), 12);
        assert_eq!(status_number(status, "nonvoluntary_ctxt_switches"), 3);
        assert_eq!(status_number(status, "absent"), 0);
    }

    #[test]
    fn page_faults_are_found_behind_a_program_of_any_name() {
        assert_eq!(page_faults("7 (a) b (c) S 1 7 7 0 -1 4194304 99 98 0 0 150 50"), 99);
        assert_eq!(page_faults(""), 0);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(shared_memory(std::process::id(), &[]) > 0);
    }
}
