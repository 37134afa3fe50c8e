//! select(2) and pselect(2): the sets of descriptors, and the wait for them.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI};

use crate::calls::masked;
use crate::calls::polling::{LIMITS_STAY, Limit, MOST, park_for_all, write_back};
use crate::descriptors::registry;
use crate::kernel::clock;
use crate::kernel::frame::Frame;
use crate::kernel::sys::{self, EINTR, EINVAL, SUSPENDED, failed, sys};
use crate::kernel::user;
use crate::schedule::waiter::Reason;
use crate::workers::pump::{count_call, give_turn};

/// select(2)
pub(crate) fn select(frame: &mut Frame) -> isize {
    let time = match user::read_optional::<libc::timeval>(frame.argument(4)) {
        Ok(time) => time,
        Err(fault) => return fault,
    };
    let time = time.map(|time| libc::timespec {
        tv_sec: time.tv_sec + time.tv_usec / 1_000_000,
        tv_nsec: time.tv_usec % 1_000_000 * 1000,
    });
    let limit = match Limit::of(time) {
        Ok(limit) => limit,
        Err(error) => return error,
    };
    let result = wait_for_sets(frame, limit, None);
    if frame.argument(4) != 0
        && result != SUSPENDED
        && !LIMITS_STAY.load(Ordering::Relaxed)
        && let Limit::Until(deadline) = limit
    {
        let left = clock::left(deadline);
        let left = libc::timeval { tv_sec: left.tv_sec, tv_usec: left.tv_nsec / 1000 };
        let _unchanged = user::write(frame.argument(4), &left);
    }
    result
}

/// pselect6(2)
pub(crate) fn pselect(frame: &mut Frame) -> isize {
    let parse = || -> Result<_, isize> {
        let limit = Limit::of(user::read_optional(frame.argument(4))?)?;
        let mask = match user::read_optional::<[u64; 2]>(frame.argument(5))? {
            Some([at, size]) => masked::read(at as usize, size as usize)?,
            None => None,
        };
        Ok((limit, mask))
    };
    match parse() {
        Ok((limit, mask)) => {
            let result = wait_for_sets(frame, limit, mask);
            if result != SUSPENDED {
                write_back(frame.argument(4), limit);
            }
            result
        }
        Err(error) => error,
    }
}

/// Copies of the sets that a select names.
struct Sets {
    count: i32,
    addresses: [usize; 3],
    words: [Vec<u64>; 3],
}

/// The events that a descriptor in each set waits for.
const SET_EVENTS: [i16; 3] = [POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI];

impl Sets {
    fn read(frame: &Frame) -> Result<Self, isize> {
        let count = frame.argument(0) as i32;
        if count < 0 {
            return Err(EINVAL);
        }
        let count = count.min(MOST as i32);
        let words = (count as usize).div_ceil(64);
        let addresses = [frame.argument(1), frame.argument(2), frame.argument(3)];
        let mut sets = Self { count, addresses, words: Default::default() };
        for (address, set) in addresses.into_iter().zip(&mut sets.words) {
            if address != 0 {
                set.resize(words, 0);
                user::read_slice(address, set)?;
                let beyond = words * 64 - count as usize;
                if let Some(last) = set.last_mut() {
                    *last &= u64::MAX >> beyond;
                }
            }
        }
        Ok(sets)
    }

    /// One entry for each descriptor in a set.
    fn polls(&self) -> Vec<libc::pollfd> {
        let mut polls = Vec::new();
        let words = self.words.iter().map(Vec::len).max().unwrap_or(0);
        for word in 0..words {
            let in_set = |set: usize| self.words[set].get(word).copied().unwrap_or(0);
            let mut any = in_set(0) | in_set(1) | in_set(2);
            while any != 0 {
                let bit = any.trailing_zeros();
                any &= any - 1;
                let events = (0..3)
                    .filter(|&set| in_set(set) >> bit & 1 != 0)
                    .fold(0, |events, set| events | SET_EVENTS[set]);
                polls.push(libc::pollfd {
                    fd: (word * 64) as i32 + bit as i32,
                    events,
                    revents: 0,
                });
            }
        }
        polls
    }

    /// The sets of the descriptors that are ready, and how many bits they have, or the error. A
    /// poll(2) instead would be subject to the limit of open files.
    fn ready(&self) -> (isize, [Vec<u64>; 3]) {
        let mut ready = self.words.clone();
        let now = clock::timespec(0);
        let [read, write, except] = &mut ready;
        let [read, write, except] =
            [read, write, except].map(|set| (!set.is_empty()).then_some(&mut set[..]));
        let bits = sys!(SYS_pselect6, self.count, read, write, except, &now, 0);
        (bits, ready)
    }

    /// Like the function above. Descriptors that have been closed count as ready.
    fn ready_or_closed(&self) -> (isize, [Vec<u64>; 3]) {
        let mut open = Self { words: self.words.clone(), ..*self };
        for poll in self.polls() {
            if sys!(SYS_fcntl, poll.fd, libc::F_GETFD) == sys::EBADF {
                let (word, bit) = (poll.fd as usize / 64, 1 << (poll.fd as usize % 64));
                open.words
                    .iter_mut()
                    .filter_map(|set| set.get_mut(word))
                    .for_each(|set| *set &= !bit);
            }
        }
        let (mut bits, mut ready) = open.ready();
        if failed(bits) {
            return (bits, ready);
        }
        for set in 0..3 {
            for (word, ready) in ready[set].iter_mut().enumerate() {
                let closed = self.words[set][word] & !open.words[set][word];
                *ready |= closed;
                bits += closed.count_ones() as isize;
            }
        }
        (bits, ready)
    }

    fn write(&self, ready: &[Vec<u64>; 3]) -> Result<(), isize> {
        for (&address, ready) in self.addresses.iter().zip(ready).filter(|(at, _)| **at != 0) {
            user::write_slice(address, ready)?;
        }
        Ok(())
    }
}

fn wait_for_sets(frame: &Frame, limit: Limit, mask: Option<u64>) -> isize {
    let _masked = masked::with(mask);
    let sets = match Sets::read(frame) {
        Ok(sets) => sets,
        Err(error) => return error,
    };
    let polls = sets.polls();
    let mut waited = false;
    let mut over = Reason::Woken;
    loop {
        let seen = registry::all_seen();
        let (mut bits, mut ready) = sets.ready();
        // A descriptor that is closed while the call waits counts as ready, as in the kernel.
        if bits == sys::EBADF && waited {
            (bits, ready) = sets.ready_or_closed();
        }
        if failed(bits) {
            return bits;
        }
        waited = true;
        if bits > 0 || limit == Limit::Now || over == Reason::TimedOut {
            if bits > 0 {
                count_call();
            } else if limit == Limit::Now {
                give_turn();
            }
            return sets.write(&ready).map_or_else(|fault| fault, |()| bits);
        }
        if over == Reason::Interrupted {
            return EINTR;
        }
        over = park_for_all(&polls, limit.deadline(), seen);
        if over == Reason::Suspended {
            return SUSPENDED;
        }
    }
}
