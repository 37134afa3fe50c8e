//! The description of the machine, and the processors of the server and of the load generator.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::{Resource, geteuid, getrlimit};
use rustix::system::uname;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::record::Machine;

/// Settings of Linux that influence results, and where to read them.
const SETTINGS: [(&str, &str); 10] = [
    ("net.core.somaxconn", "/proc/sys/net/core/somaxconn"),
    ("net.ipv4.tcp_max_syn_backlog", "/proc/sys/net/ipv4/tcp_max_syn_backlog"),
    ("net.ipv4.tcp_congestion_control", "/proc/sys/net/ipv4/tcp_congestion_control"),
    ("net.ipv4.ip_local_port_range", "/proc/sys/net/ipv4/ip_local_port_range"),
    ("kernel.pid_max", "/proc/sys/kernel/pid_max"),
    ("kernel.threads-max", "/proc/sys/kernel/threads-max"),
    ("vm.max_map_count", "/proc/sys/vm/max_map_count"),
    ("clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("frequency governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("SMT", "/sys/devices/system/cpu/smt/control"),
];

/// The name of the setting that limits the processes and kernel threads here.
pub(crate) const PROCESSES: &str = "processes and threads";

/// The number of processes and kernel threads that the user's limit and the control groups allow
/// here. `None` if neither limits them. The limit of the user does not hold for root.
fn most_processes() -> Option<u64> {
    let of_user = getrlimit(Resource::Nproc).current.filter(|_| !geteuid().is_root());
    // Version 2 has all controllers in one hierarchy, and version 1 has one hierarchy for
    // processes.
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let root = match parts.next()? {
            "" => "/sys/fs/cgroup",
            "pids" => "/sys/fs/cgroup/pids",
            _ => return None,
        };
        Some(Path::new(root).join(parts.next()?.trim_start_matches('/')))
    });
    let limits = own.flat_map(|group| {
        let above = group.ancestors().map(|group| group.join("pids.max")).collect::<Vec<_>>();
        above.into_iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
    });
    limits.chain(of_user).min()
}

/// Describes this machine. Unknown properties are left out.
pub fn describe() -> Machine {
    let name = uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let mut settings: BTreeMap<String, String> = SETTINGS
        .iter()
        .filter_map(|(name, path)| Some(((*name).to_owned(), line(path)?)))
        .collect();
    let files = getrlimit(Resource::Nofile).maximum;
    let files = files.map_or("unlimited".to_owned(), |limit| limit.to_string());
    settings.insert("open files (hard limit)".to_owned(), files);
    settings.extend(most_processes().map(|most| (PROCESSES.to_owned(), most.to_string())));
    Machine {
        kernel: format!(
            "{} {} {}",
            text(name.sysname()),
            text(name.release()),
            text(name.machine())
        ),
        cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
        cpus: allowed().len(),
        memory_bytes: field("/proc/meminfo", "MemTotal").map_or(0, |value| kibibytes(&value)),
        settings,
    }
}

/// Processors for the server (the first processor) and for the load generator (processors that
/// share no core with the first). Both lists are empty if the machine has fewer than two cores.
/// Then neither side is pinned.
pub fn split_cpus() -> (Vec<usize>, Vec<usize>) {
    let allowed = allowed();
    let Some(&server) = allowed.first() else { return (Vec::new(), Vec::new()) };
    let path = format!("/sys/devices/system/cpu/cpu{server}/topology/thread_siblings_list");
    let siblings = line(&path).map_or_else(|| BTreeSet::from([server]), |list| parse_list(&list));
    let client: Vec<usize> =
        allowed.iter().copied().filter(|cpu| *cpu != server && !siblings.contains(cpu)).collect();
    if client.is_empty() { (Vec::new(), Vec::new()) } else { (vec![server], client) }
}

/// The processors that this process may use, as of the first call. The load is pinned later.
pub fn allowed() -> BTreeSet<usize> {
    static ALLOWED: OnceLock<BTreeSet<usize>> = OnceLock::new();
    let look = || {
        sched_getaffinity(None)
            .map(|set| (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
            .unwrap_or_default()
    };
    ALLOWED.get_or_init(look).clone()
}

/// Reads a list such as `0-3,8`.
fn parse_list(list: &str) -> BTreeSet<usize> {
    list.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
        })
        .flatten()
        .collect()
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().replace('\t', " "))
}

/// The value of the first line `name : value` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Reads `123 kB`.
pub(crate) fn kibibytes(value: &str) -> u64 {
    value.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
        * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse_list("0-2,8"), BTreeSet::from([0, 1, 2, 8]));
        assert_eq!(parse_list("5"), BTreeSet::from([5]));
    }

    #[test]
    fn this_machine_has_a_kernel_and_processors() {
        let machine = describe();
        assert!(machine.kernel.starts_with("Linux "));
        assert!(machine.cpus > 0 && machine.memory_bytes > 0);
    }

    #[test]
    fn the_two_sides_share_no_processor() {
        let (server, client) = split_cpus();
        assert_eq!(server.is_empty(), client.is_empty());
        assert!(server.iter().all(|cpu| !client.contains(cpu)));
    }
}
