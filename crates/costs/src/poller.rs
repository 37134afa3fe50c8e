//! One round of a poller that watches many descriptors. One descriptor is ready, or all are.
//!
//! A round does what an event loop does: it waits (though some descriptors are ready already), and
//! arms reported descriptors again. Two system calls between rounds make the next descriptor ready,
//! and take the byte of the last descriptor. The result excludes these two calls, and includes one
//! reading of the clock (some 25 ns). The result is the median round, because an interrupted round
//! shows the work of other programs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use duality_poller::{Direction, Kind, Token};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Reading, Unit};

/// Descriptors that the process needs beside the watched descriptors.
const OTHERS: usize = 32;

/// Does `count` rounds with a poller. `watched` descriptors are registered, and `ready` descriptors
/// are ready.
pub(crate) fn round(kind: Kind, watched: usize, ready: usize, count: u64) -> io::Result<Reading> {
    allow_descriptors(watched + OTHERS)?;
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let descriptors: Vec<OwnedFd> =
        (0..watched).map(|_| eventfd(0, flags)).collect::<Result<_, _>>()?;
    let mut poller = kind.open()?;
    for (index, descriptor) in descriptors.iter().enumerate() {
        poller.arm(descriptor.as_fd(), Token(index as u32), Direction::Read)?;
    }
    let mut events = Vec::new();
    let mut rounds = Vec::new();
    for turn in 0..count {
        // This stride meets all descriptors. Otherwise a scan that stops at the ready descriptor
        // could always be lucky.
        let first = (turn.wrapping_mul(7919) % watched as u64) as usize;
        for place in 0..ready {
            write(&descriptors[(first + place) % watched], &1u64.to_ne_bytes())?;
        }
        let start = Instant::now();
        poller.wait(None, &mut events)?;
        let waited = start.elapsed();
        if events.is_empty() {
            return Err(io::Error::other("nothing was reported"));
        }
        for event in &events {
            read(&descriptors[event.token.0 as usize], &mut [0; 8])?;
        }
        let start = Instant::now();
        for event in &events {
            let descriptor = &descriptors[event.token.0 as usize];
            poller.arm(descriptor.as_fd(), event.token, Direction::Read)?;
        }
        rounds.push(waited + start.elapsed());
    }
    let middle = rounds.len() / 2;
    let (_, median, _) = rounds.select_nth_unstable(middle);
    Ok(Reading::new(count, median.as_nanos() * u128::from(count), Unit::Nanoseconds))
}

/// Raises this process's limit of descriptors as far as needed.
fn allow_descriptors(needed: usize) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed as u64);
    if is_enough(limit.current) {
        return Ok(());
    }
    if !is_enough(limit.maximum) {
        let most = limit.maximum.unwrap_or_default();
        return Err(io::Error::other(format!(
            "needs {needed} descriptors, the hard limit is {most}: ulimit -Hn raises it"
        )));
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?)
}
