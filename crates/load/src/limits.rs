//! The kernel resources that a load needs before it starts: descriptors, and CPUs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Error;

/// Descriptors besides the connections: standard streams, pollers, files, and the caller's.
pub const SPARE_DESCRIPTORS: u64 = 64;

/// Makes sure that `connections` can be open at once. Raises this process's soft limit if
/// necessary.
pub(crate) fn provide_descriptors(connections: usize) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    match plan(&limit, connections as u64) {
        Remedy::Enough => Ok(()),
        Remedy::Raise(raised) => setrlimit(Resource::Nofile, raised).map_err(|error| {
            Error::System { doing: "raising the descriptor limit", error: error.into() }
        }),
        Remedy::Refuse { needed, hard } => {
            Err(Error::Descriptors { connections, needed, limit: hard })
        }
    }
}

/// Whether `connections` can be open at once, after the limit is raised as far as possible.
pub(crate) fn check_descriptors(connections: usize) -> Result<(), Error> {
    match plan(&getrlimit(Resource::Nofile), connections as u64) {
        Remedy::Enough | Remedy::Raise(_) => Ok(()),
        Remedy::Refuse { needed, hard } => {
            Err(Error::Descriptors { connections, needed, limit: hard })
        }
    }
}

/// The number of loads of `connections` connections that can be open at once. At least one.
pub(crate) fn room_for(connections: usize) -> usize {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let room = most.saturating_sub(SPARE_DESCRIPTORS) / (connections as u64).max(1);
    usize::try_from(room).unwrap_or(usize::MAX).max(1)
}

/// Confines the calling kernel thread, and later threads that it starts, to `cpus`. An empty list
/// changes nothing.
pub(crate) fn pin(cpus: &[usize]) -> Result<(), Error> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(Error::Pin { cpus: cpus.to_vec(), error: rustix::io::Errno::INVAL.into() });
        }
        set.set(cpu);
    }
    sched_setaffinity(None, &set)
        .map_err(|error| Error::Pin { cpus: cpus.to_vec(), error: error.into() })
}

enum Remedy {
    Enough,
    Raise(Rlimit),
    Refuse { needed: u64, hard: u64 },
}

/// Chooses the action under `limit`. `None` means unlimited.
fn plan(limit: &Rlimit, connections: u64) -> Remedy {
    let needed = connections.saturating_add(SPARE_DESCRIPTORS);
    match (limit.current, limit.maximum) {
        (None, _) => Remedy::Enough,
        (Some(soft), _) if soft >= needed => Remedy::Enough,
        (_, Some(hard)) if hard < needed => Remedy::Refuse { needed, hard },
        // The limit rises to the hard limit, so that the next run in this process need not raise it
        // again.
        (_, hard) => Remedy::Raise(Rlimit { current: hard.or(Some(needed)), maximum: hard }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(current: u64, maximum: u64) -> Rlimit {
        Rlimit { current: Some(current), maximum: Some(maximum) }
    }

    #[test]
    fn the_soft_limit_is_raised_only_when_needed() {
        assert!(matches!(plan(&limit(1024, 4096), 1024 - SPARE_DESCRIPTORS), Remedy::Enough));
        assert!(matches!(
            plan(&limit(1024, 4096), 1024),
            Remedy::Raise(Rlimit { current: Some(4096), maximum: Some(4096) })
        ));
        assert!(matches!(plan(&Rlimit { current: None, maximum: None }, u64::MAX), Remedy::Enough));
    }

    #[test]
    fn the_hard_limit_refuses() {
        assert!(matches!(
            plan(&limit(1024, 4096), 4096),
            Remedy::Refuse { needed, hard: 4096 } if needed == 4096 + SPARE_DESCRIPTORS
        ));
    }

    #[test]
    fn a_cpu_that_no_machine_has_is_an_error() {
        assert!(matches!(pin(&[usize::MAX]), Err(Error::Pin { .. })));
        assert!(pin(&[]).is_ok());
    }
}
