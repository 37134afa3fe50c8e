//! The limits on the number of connections of a server. The architecture's declaration and the
//! machine of the results give the limits, before any run. Only the memory limit is a prediction.

use duality_load::SPARE_DESCRIPTORS;

use super::memory::Memory;
use crate::ask::resolve::Architecture;
use crate::measure::machine::PROCESSES;
use crate::record::{Heading, Machine};

/// Process ids that the kernel keeps for itself once it has given out all
/// (`RESERVED_PIDS`, kernel/pid.c).
const RESERVED_IDS: u64 = 300;

/// The resource that runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `--max-connections`.
    MaxConnections,
    /// Workers: further connections wait for one.
    Workers,
    /// The accept queue, in which connections wait that no worker has accepted.
    AcceptQueue,
    /// Descriptors of a process.
    Descriptors,
    /// Ids of processes and threads.
    ProcessIds,
    /// Kernel threads of the machine.
    Threads,
    /// Processes and threads of the user or the control group.
    Processes,
    /// Mappings of a process.
    Mappings,
    /// Memory of the machine, which is predicted.
    Memory,
    /// Ports of an address from which load comes.
    Ports,
}

impl Kind {
    /// The limit's name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxConnections => "max-connections",
            Self::Workers => "workers",
            Self::AcceptQueue => "accept queue",
            Self::Descriptors => "descriptors",
            Self::ProcessIds => "process ids",
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::Mappings => "mappings",
            Self::Memory => "memory",
            Self::Ports => "ports",
        }
    }

    /// The setting that raises the limit.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::MaxConnections => "--max-connections",
            Self::Workers => "--workers",
            Self::AcceptQueue => "--backlog and net.core.somaxconn",
            Self::Descriptors => "ulimit -n",
            Self::ProcessIds => "kernel.pid_max",
            Self::Threads => "kernel.threads-max",
            Self::Processes => "ulimit -u and the control group's pids.max",
            Self::Mappings => "vm.max_map_count",
            Self::Memory => "more memory",
            Self::Ports => "net.ipv4.ip_local_port_range",
        }
    }

    /// Whether connections beyond the limit are never open. Beyond other limits, connections wait
    /// for their turn.
    pub fn is_hard(self) -> bool {
        !matches!(self, Self::Workers | Self::AcceptQueue | Self::Memory)
    }
}

/// A limit on the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The resource that runs out.
    pub kind: Kind,
    /// The most connections within the limit.
    pub connections: u64,
}

/// The limits of a server, the lowest limit first. `admitted` returns how many connections the
/// server accepts under a limit on descriptors.
pub(super) fn of_server(
    heading: &Heading,
    architecture: &Architecture,
    admitted: impl Fn(u64) -> u64,
) -> Vec<Limit> {
    let machine = &heading.machine;
    let footprint = &architecture.footprint;
    let mut limits = Vec::new();
    let mut add = |kind, connections: Option<u64>| {
        limits.extend(connections.map(|connections| Limit { kind, connections }));
    };
    add(Kind::MaxConnections, bounded(architecture.max_connections));
    add(Kind::Workers, architecture.workers.and_then(bounded));
    add(
        Kind::AcceptQueue,
        footprint.accepted.and_then(bounded).map(|accepted| {
            let backlog = footprint.backlog as u64;
            let queue = setting(machine, "net.core.somaxconn").unwrap_or(backlog).min(backlog);
            // The kernel's queue holds one connection more than its length.
            accepted.saturating_add(queue).saturating_add(1)
        }),
    );
    // Each process has a table of descriptors, and these processes serve one connection at a time.
    // Descriptors also do not run out if the server accepts fewer connections.
    if !architecture.carrier.processes {
        let most = footprint.descriptors.or_else(|| setting(machine, "open files (hard limit)"));
        let accepted = footprint.accepted.map_or(u64::MAX, |accepted| accepted as u64);
        add(Kind::Descriptors, most.map(admitted).filter(|most| *most < accepted));
    }
    let each = (footprint.processes + footprint.threads) as u64;
    let share = |limit: u64, kept: u64| limit.saturating_sub(kept).checked_div(each);
    for (kind, name, kept) in [
        (Kind::ProcessIds, "kernel.pid_max", RESERVED_IDS),
        (Kind::Threads, "kernel.threads-max", 0),
        (Kind::Processes, PROCESSES, 0),
    ] {
        add(kind, setting(machine, name).and_then(|limit| share(limit, kept)));
    }
    let is_spared = footprint.no_mappings_from.is_some_and(|first| linux(machine) >= Some(first));
    if !is_spared {
        let left = setting(machine, "vm.max_map_count");
        let left = left.map(|count| count.saturating_sub(footprint.reserved_mappings as u64));
        add(Kind::Mappings, left.and_then(|left| left.checked_div(footprint.mappings as u64)));
    }
    sort(&mut limits);
    limits
}

/// The limit that memory sets, if memory grows with connections.
pub(super) fn of_memory(memory: &Memory, machine_bytes: u64) -> Option<Limit> {
    let left = machine_bytes as f64 - memory.base;
    let connections = (memory.bytes_per_connection >= 1.0 && left > 0.0)
        .then(|| (left / memory.bytes_per_connection) as u64)?;
    Some(Limit { kind: Kind::Memory, connections })
}

/// The limits of a host that makes the load from one address.
pub(super) fn of_load(heading: &Heading, connections: usize) -> Vec<Limit> {
    let machine = &heading.machine;
    let range = machine.settings.get("net.ipv4.ip_local_port_range");
    let ports = range.and_then(|range| {
        let mut ends = range.split_whitespace().map(str::parse::<u64>);
        let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    let sources = heading.design.clients.sources.map_or(1, |sources| u64::from(sources.get()));
    let files = setting(machine, "open files (hard limit)");
    let limits = [
        ports.map(|ports| (Kind::Ports, ports.saturating_mul(sources))),
        files.map(|files| (Kind::Descriptors, files.saturating_sub(SPARE_DESCRIPTORS))),
    ];
    let limits = limits.into_iter().flatten();
    limits
        .map(|(kind, connections)| Limit { kind, connections })
        .filter(|limit| limit.connections < connections as u64)
        .collect()
}

/// The number of connections that can be open within the hard limits.
pub(super) fn fit(limits: &[Limit]) -> f64 {
    let hard = limits.iter().filter(|limit| limit.kind.is_hard());
    hard.map(|limit| limit.connections as f64).fold(f64::INFINITY, f64::min)
}

/// Sort the limits, the lowest first.
pub(super) fn sort(limits: &mut [Limit]) {
    limits.sort_by_key(|limit| (limit.connections, limit.kind));
}

/// A number, or `None` if the number means that there is no limit.
fn bounded(number: usize) -> Option<u64> {
    (number != usize::MAX).then_some(number as u64)
}

fn setting(machine: &Machine, name: &str) -> Option<u64> {
    machine.settings.get(name)?.parse().ok()
}

/// The version of Linux of a machine: `Linux 6.18.44-fc x86_64` is 6.18.
fn linux(machine: &Machine) -> Option<(u32, u32)> {
    let release = machine.kernel.strip_prefix("Linux ")?;
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
