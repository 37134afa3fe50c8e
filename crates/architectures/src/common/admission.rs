//! Admission: how many connections may be accepted, so that their service finds descriptors and
//! memory.
//!
//! ```text
//!   descriptors:  │ in use at start │ connections, each with its service's descriptors │ reserve │
//!   memory:       │ whatever is in use                                                 │ reserve │
//! ```
//!
//! A server that accepts as long as accept(2) succeeds uses up all descriptors, and then cannot
//! open a file. So this server stops earlier. Clients wait in the accept queue meanwhile, as with
//! any shortage ([`Pressure`](super::pressure::Pressure)).

use std::io;

use duality_runtime::memory::Reserve;
use duality_runtime::net::TcpListener;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// The resources that must be left over when a connection is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// The most connections that the descriptors allow.
    most: usize,
    memory: Reserve,
}

impl Admission {
    /// The admission of one of `loops` loops, which share the process's descriptors. A connection
    /// has `each` descriptors, its socket included.
    pub fn new(listener: &TcpListener, each: usize, loops: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        // The kernel gives out the lowest free number, so all lower numbers are in use.
        let in_use = match fcntl_dupfd_cloexec(listener, 0) {
            Ok(next) => std::os::fd::AsRawFd::as_raw_fd(&next) as usize,
            Err(_) => limit,
        };
        let most = connections_within(limit, in_use, each) / loops;
        Self { most: most.max(1), memory: Reserve::of_this_process() }
    }

    /// Checks descriptors only, for connections that need no memory beyond what is allocated
    /// already.
    #[must_use]
    pub fn of_descriptors(self) -> Self {
        Self { memory: Reserve::default(), ..self }
    }

    /// Checks memory only.
    pub fn of_memory() -> Self {
        Self { memory: Reserve::of_this_process(), ..Self::unlimited() }
    }

    /// Checks nothing.
    pub fn unlimited() -> Self {
        Self { most: usize::MAX, memory: Reserve::default() }
    }

    /// The most connections that the descriptors allow.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Whether a connection may be accepted beside the `held` ones. The first one always may,
    /// because no other connection could free anything.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENOMEM`, as a failed attempt would return.
    #[inline]
    pub fn check(&self, held: usize) -> io::Result<()> {
        if held == 0 {
            return Ok(());
        }
        if held >= self.most {
            return Err(Errno::MFILE.into());
        }
        self.memory.is_left()
    }
}

/// The number of connections that a process admits under a limit on descriptors, of which some are
/// `in_use`. A connection has `each` descriptors, its socket included.
#[must_use]
pub fn connections_within(limit: usize, in_use: usize, each: usize) -> usize {
    let left = limit.saturating_sub(in_use);
    (left - reserved(limit, left)) / each.max(1)
}

/// The number of the `left` descriptors that are reserved under this limit. The reserve is an
/// eighth of the limit, from 16 to 1,024, but at most half of `left`.
fn reserved(limit: usize, left: usize) -> usize {
    (limit / 8).clamp(16, 1024).min(left / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_an_eighth_within_bounds() {
        for (limit, left, reserve) in
            [(16, 6, 3), (64, 54, 16), (1024, 1000, 128), (1 << 20, 1 << 20, 1024)]
        {
            assert_eq!(reserved(limit, left), reserve, "{limit}");
        }
    }

    #[test]
    fn connections_are_what_the_reserve_leaves() {
        for (limit, in_use, each, most) in
            [(20_000, 20, 1, 18_956), (20_000, 20, 2, 9478), (1024, 24, 1, 872), (16, 20, 1, 0)]
        {
            assert_eq!(connections_within(limit, in_use, each), most, "{limit} / {each}");
        }
    }

    #[test]
    fn the_first_connection_is_admitted_whatever_is_lacking() {
        let admission = Admission { most: 2, memory: Reserve::default() };
        assert!(admission.check(0).is_ok() && admission.check(1).is_ok());
        assert_eq!(admission.check(2).unwrap_err().raw_os_error(), Some(libc::EMFILE));
    }
}
