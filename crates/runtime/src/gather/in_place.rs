//! The block world's gathered waits: one poll(2) for all waits that were noted on this kernel
//! thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use duality_poller::Direction;

use super::deadlines::{Deadlines, Key};
use crate::drain;
use crate::thread_waker::{running_waker, sleep_in_poll, sleep_parked};
use crate::threads::{self, Threads};
use crate::visibility::{self, Wait, thread_slots};
use crate::wait::{Ambient, Waited, earlier};

/// The waits of this kernel thread's task. The wakers here are not the task's own.
#[derive(Default)]
struct Set {
    descriptors: Vec<Noted>,
    deadlines: Deadlines,
    /// The waits for the drain.
    drains: BTreeMap<Key, Option<Waker>>,
    /// The argument of poll(2), kept for its memory.
    polled: Vec<libc::pollfd>,
    /// Wakers to use, kept for its memory.
    woken: Vec<Waker>,
    /// The waits since the last poll(2).
    unasked: u32,
}

struct Noted {
    number: RawFd,
    direction: Direction,
    waker: Option<Waker>,
}

/// The interval between checks for a drain, if no descriptor is left to wait for it.
const WITHOUT_EVENTS: Duration = Duration::from_millis(100);

/// The most waits without a poll(2), while the task wakes itself. Its other waits must not starve.
const MOST_UNASKED: u32 = 32;

thread_local! {
    static SET: RefCell<Set> = RefCell::default();
}

/// Calls `change` with the set, and drops its result afterwards, because the drop may change the
/// set. At the end of the thread, the set no longer exists.
fn with_set<R>(change: impl FnOnce(&mut Set) -> R) {
    let changed = SET.try_with(|set| change(&mut set.borrow_mut()));
    drop(changed);
}

fn foreign(context: &Context<'_>) -> Option<Waker> {
    let waker = context.waker();
    (waker.data().addr() != running_waker()).then(|| waker.clone())
}

pub(crate) fn note_descriptor(number: RawFd, direction: Direction, context: &Context<'_>) {
    let waker = foreign(context);
    with_set(|set| {
        let is_it = |noted: &&mut Noted| (noted.number, noted.direction) == (number, direction);
        match set.descriptors.iter_mut().find(is_it) {
            Some(noted) => mem::replace(&mut noted.waker, waker),
            None => {
                set.descriptors.push(Noted { number, direction, waker });
                None
            }
        }
    });
}

pub(crate) fn forget_descriptor(number: RawFd) {
    with_set(|set| {
        let of_it = set.descriptors.extract_if(.., |noted| noted.number == number);
        of_it.collect::<Vec<_>>()
    });
}

pub(crate) fn note_time_in_place(key: Key, deadline: Instant, context: &Context<'_>) {
    let waker = foreign(context);
    with_set(|set| set.deadlines.set(key, deadline, waker));
}

pub(crate) fn forget_time_in_place(key: Key) {
    with_set(|set| set.deadlines.forget(key));
}

pub(crate) fn move_time_in_place(key: Key, deadline: Instant) -> bool {
    SET.with_borrow_mut(|set| set.deadlines.move_to(key, deadline))
}

/// Has the task polled when a drain concerns it.
pub(crate) fn note_drain(key: Key, context: &Context<'_>) {
    let waker = foreign(context);
    with_set(|set| set.drains.insert(key, waker));
}

pub(crate) fn forget_drain(key: Key) {
    with_set(|set| set.drains.remove(&key));
}

/// Waits for all noted waits, for the waker of this kernel thread, and for the ambient deadline.
/// May return early.
pub(crate) fn wait_in_place(ambient: Ambient) -> Waited {
    let end = match ambient {
        Ambient::Gather => return Waited::Pending,
        Ambient::Before(end) => Some(end),
        Ambient::Never => None,
    };
    let _seen = thread_slots::show_wait(Wait::Several);
    let (has_descriptors, first) = SET.with_borrow(|set| {
        (!set.descriptors.is_empty() || !set.drains.is_empty(), set.deadlines.next())
    });
    let until = earlier(first, end);
    if has_descriptors {
        wait_in_poll(until);
    } else {
        sleep_parked(until.map(|until| until.saturating_duration_since(threads::now())));
    }
    let now = (until.is_some()).then(threads::now);
    let mut woken = SET.with_borrow_mut(|set| {
        if let Some(now) = now {
            set.deadlines.expire(now, &mut set.woken);
        }
        mem::take(&mut set.woken)
    });
    woken.drain(..).for_each(Waker::wake);
    SET.with_borrow_mut(|set| set.woken = woken);
    match (end, now) {
        (Some(end), Some(now)) if now >= end => Waited::Pending,
        _ => Waited::Again,
    }
}

/// Sleeps until one of the descriptors is ready, until the waker is used, or until `until`. Takes
/// the ready descriptors off the set: their operations note them again.
fn wait_in_poll(until: Option<Instant>) {
    SET.with_borrow_mut(|set| {
        let Set { descriptors, drains, polled, woken, unasked, .. } = set;
        polled.clear();
        polled.extend(descriptors.iter().map(|noted| {
            let events = match noted.direction {
                Direction::Read => libc::POLLIN,
                Direction::Write => libc::POLLOUT,
            };
            libc::pollfd { fd: noted.number, events, revents: 0 }
        }));
        let to_read = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut look = None;
        if !drains.is_empty() {
            match drain::events() {
                Ok((process, scope)) => {
                    polled.extend([Some(process), scope].into_iter().flatten().map(to_read));
                }
                Err(_) => look = Some(WITHOUT_EVENTS),
            }
            if drain::requested() {
                look = Some(Duration::ZERO);
            }
        }
        let mut ask = |event: Option<BorrowedFd<'_>>, limit: Option<Duration>| {
            polled.extend(event.map(|event| to_read(event.as_raw_fd())));
            let left = until.map(|until| until.saturating_duration_since(threads::now()));
            visibility::count(|counters| counters.other_calls.add(1));
            poll(polled, earlier(earlier(left, limit), look));
        };
        *unasked = if sleep_in_poll(&mut ask) { 0 } else { *unasked + 1 };
        if *unasked >= MOST_UNASKED {
            ask(None, Some(Duration::ZERO));
            *unasked = 0;
        }
        if drain::requested() {
            woken.extend(mem::take(drains).into_values().flatten());
        }
        let mut ready = polled.iter().map(|polled| polled.revents != 0);
        descriptors.retain_mut(|noted| {
            let is_ready = ready.next() == Some(true);
            if is_ready {
                woken.extend(noted.waker.take());
            }
            !is_ready
        });
    });
}

/// poll(2), which a signal may end early. A number that has been closed is ready.
fn poll(polled: &mut [libc::pollfd], limit: Option<Duration>) {
    if let Some(threads) = threads::here() {
        return poll_simulated(&*threads, polled, limit);
    }
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the array has the stated number of entries, and it and the limit outlive the call.
    // The kernel only looks the numbers up.
    unsafe {
        libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit, std::ptr::null())
    };
}

#[cold]
fn poll_simulated(threads: &dyn Threads, polled: &mut [libc::pollfd], limit: Option<Duration>) {
    let of = |polled: &libc::pollfd| match polled.events {
        libc::POLLIN => (polled.fd, Direction::Read, false),
        _ => (polled.fd, Direction::Write, false),
    };
    let mut descriptors: Vec<_> = polled.iter().map(of).collect();
    let deadline = limit.and_then(|limit| threads.now().checked_add(limit));
    threads::poll(threads, &mut descriptors, deadline);
    for (polled, (.., is_ready)) in polled.iter_mut().zip(descriptors) {
        polled.revents = if is_ready { polled.events } else { 0 };
    }
}
