//! Admission: how many connections may be accepted, so that their service finds descriptors and
//! memory.
//!
//! ```text
//!   descriptors:  │ in use at the start │ connections, each with those that its service keeps │ reserve │
//!   memory:       │ whatever is in use                                                        │ reserve │
//! ```
//!
//! A server that accepts as long as accept(2) succeeds takes the last descriptor. Then each file
//! that a client asks for is one too many. So the server stops before. Clients wait in the accept
//! queue, as they do for anything that is lacking ([`Pressure`](super::pressure::Pressure)).

use std::io;

use duality_runtime::memory::Reserve;
use duality_runtime::net::TcpListener;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// What is to be left when a connection is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// The most connections that there are descriptors for.
    most: usize,
    memory: Reserve,
}

impl Admission {
    /// For one of `loops` that share this process and its descriptors. A connection has `each`, its
    /// socket included.
    pub fn new(listener: &TcpListener, each: usize, loops: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        // Numbers are given out from the lowest: those below the next one are in use.
        let in_use = match fcntl_dupfd_cloexec(listener, 0) {
            Ok(next) => std::os::fd::AsRawFd::as_raw_fd(&next) as usize,
            Err(_) => limit,
        };
        let left = limit.saturating_sub(in_use);
        let most = (left - reserved(limit, left)) / each / loops;
        Self { most: most.max(1), memory: Reserve::of_this_process() }
    }

    /// The same, where what a connection needs beside descriptors is there before it comes.
    #[must_use]
    pub fn of_descriptors(self) -> Self {
        Self { memory: Reserve::default(), ..self }
    }

    /// For what needs memory only.
    pub fn of_memory() -> Self {
        Self { memory: Reserve::of_this_process(), ..Self::unlimited() }
    }

    /// For a process that has no limits.
    pub fn unlimited() -> Self {
        Self { most: usize::MAX, memory: Reserve::default() }
    }

    /// The most connections that there are descriptors for.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Whether a connection may be accepted beside the `held` ones. The first one always may: to
    /// wait would be in vain.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENOMEM`, as if it had been tried.
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

/// How many of the `left` descriptors connections may not have, under this limit. It is an eighth
/// of the limit, from 16 to 1,024, but no more than half of those that are left.
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
    fn the_first_connection_is_admitted_whatever_is_lacking() {
        let admission = Admission { most: 2, memory: Reserve::default() };
        assert!(admission.check(0).is_ok() && admission.check(1).is_ok());
        assert_eq!(admission.check(2).unwrap_err().raw_os_error(), Some(libc::EMFILE));
    }
}
