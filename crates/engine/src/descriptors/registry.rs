//! The engine's record of each descriptor: its kind, its flags, and its waiters.
//!
//! When a thread first waits for a descriptor, the engine registers it with epoll: edge-triggered,
//! for all events, until the close. Between two edges, the engine remembers what it has seen. After
//! a short read the socket is empty, so the next read parks without another attempt.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use libc::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP};

use crate::descriptors::engine_files;
use crate::descriptors::facts;
use crate::descriptors::spare_numbers::MOST_DESCRIPTORS;
use crate::kernel::cells::Relaxed;
use crate::kernel::clock::Nanoseconds;
use crate::kernel::lock::{self, Locked, Setting, lock};
use crate::kernel::plain::zeroed;
use crate::kernel::sys::{self, SUSPENDED, failed, sys};
use crate::schedule::edges::{Seen, Side};
use crate::schedule::poll_node::{PollList, PollNode};
use crate::schedule::scheduler::wake;
use crate::schedule::waiter::{Reason, State};

/// The kind of file that a descriptor refers to, as far as waiting is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Unknown,
    /// A stream socket.
    Stream,
    /// Any other socket.
    Message,
    /// A pipe, or another file that takes `RWF_NOWAIT`.
    Pipe,
    /// A file that can be polled and nothing more: terminals, devices, FIFOs opened by name.
    Polled,
    /// A file that takes `RWF_NOWAIT` for reads alone: event counters.
    PolledReads,
    /// A file that is always ready: regular files, directories.
    Direct,
    /// A file to which the program writes the name of a thread (`/proc/self/task/…/comm`).
    Name,
}

/// Reading or writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// One descriptor.
pub(crate) struct Descriptor {
    kind: AtomicU8,
    facts: AtomicU8,
    generation: AtomicU32,
    pub(crate) read: Side,
    pub(crate) write: Side,
    pub(crate) polls: PollList,
    /// The socket was empty after the last call on the ring, so the next attempt uses the ring.
    drained: AtomicBool,
    /// A worker makes a call that no other may make at the same time.
    busy: AtomicBool,
    /// A helper waits in accept(2): see `calls/connections.rs`.
    accepts: AtomicBool,
    /// The socket's timeouts for reading and writing, in nanoseconds; zero for none.
    pub(crate) timeouts: [Relaxed<Nanoseconds>; 2],
    /// The thread that a descriptor of the kind `Name` names.
    pub(crate) named: Relaxed<i32>,
}

static TABLE: Setting<*const Descriptor> = Setting::new(core::ptr::null());
/// How many entries the table has.
static ROOM: Setting<usize> = Setting::new(0);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);
/// The number of events so far, of all descriptors.
static ALL_EDGES: AtomicU32 = AtomicU32::new(0);
/// The number of entries of the table that can be used.
static OPENED: AtomicUsize = AtomicUsize::new(0);
/// Descriptors that had a lower number when the process started, or last forked, are shared.
static FORKED_BELOW: AtomicUsize = AtomicUsize::new(0);

/// Makes room for the table. All zeros are descriptors that are still unknown.
pub(crate) fn reserve() -> bool {
    let room = sys::affordable(MOST_DESCRIPTORS, size_of::<Descriptor>());
    ROOM.set(room);
    let table = sys::reserve(room * size_of::<Descriptor>());
    TABLE.set(table.unwrap_or(0) as *const Descriptor);
    table.is_some() && reach(0)
}

/// Makes sure that there is an entry for `number`.
#[cold]
fn reach(number: usize) -> bool {
    /// The table grows by this many entries. `MOST_DESCRIPTORS` is a multiple.
    const STEP: usize = 1024;
    if number >= OPENED.load(Ordering::Relaxed) {
        let length = (number + 1).next_multiple_of(STEP);
        if !sys::open_reserved(TABLE.get() as usize, length * size_of::<Descriptor>()) {
            return false;
        }
        OPENED.fetch_max(length, Ordering::Relaxed);
    }
    HIGHEST.fetch_max(number, Ordering::Relaxed);
    true
}

/// A file that is open at the start may be open in other processes too.
pub(crate) fn inherit() {
    /// Descriptors that a program inherits have low numbers.
    const LOW: usize = 256;
    let mut polls = [libc::pollfd { fd: -1, events: 0, revents: 0 }; LOW];
    polls.iter_mut().enumerate().for_each(|(number, poll)| poll.fd = number as i32);
    // One call reports all numbers that refer to nothing.
    sys!(SYS_poll, &mut polls, LOW, 0);
    let highest = polls.iter().rposition(|poll| poll.revents & libc::POLLNVAL == 0);
    FORKED_BELOW.store(highest.map_or(0, |number| number + 1), Ordering::Relaxed);
}

/// The descriptor with this number, unless the engine does not follow it.
#[inline(always)]
pub(crate) fn get(number: usize) -> Option<&'static Descriptor> {
    let number = number as i32;
    if (number as u32) as usize >= ROOM.get() {
        return None;
    }
    if number as usize > HIGHEST.load(Ordering::Relaxed) && !reach(number as usize) {
        return None;
    }
    // SAFETY: the table has more entries than `number`, is never unmapped, and zeros are a valid
    // entry.
    Some(unsafe { &*TABLE.get().add(number as usize) })
}

/// The highest number that has been seen.
pub(crate) fn highest() -> usize {
    HIGHEST.load(Ordering::Relaxed)
}

/// Whether the number belongs to the engine.
pub(crate) fn is_ours(number: usize) -> bool {
    let number = number as i32;
    number >= 0 && engine_files::protected().contains(&number)
}

/// An event of epoll.
pub(crate) fn event(locked: &mut Locked, data: u64, events: u32) {
    ALL_EDGES.fetch_add(1, Ordering::Relaxed);
    let Some(descriptor) = get(data as u32 as usize) else { return };
    if descriptor.generation.load(Ordering::Relaxed) == (data >> 32) as u32 {
        descriptor.ready(locked, events as i32);
    }
}

/// The edges of all descriptors so far, for a call that waits for several of them.
pub(crate) fn all_seen() -> Seen {
    Seen(ALL_EDGES.load(Ordering::Relaxed))
}

impl Descriptor {
    pub(crate) fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    pub(crate) fn has(&self, facts: u8) -> bool {
        self.facts.load(Ordering::Relaxed) & facts != 0
    }

    pub(crate) fn set(&self, facts: u8) {
        self.facts.fetch_or(facts, Ordering::Relaxed);
    }

    pub(crate) fn clear(&self, facts: u8) {
        self.facts.fetch_and(!facts, Ordering::Relaxed);
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    fn ready(&self, locked: &mut Locked, events: i32) {
        let gone = EPOLLHUP | EPOLLERR;
        if events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | gone) != 0 {
            self.read.count();
            self.wake_next(locked, Direction::Read, events & (EPOLLRDHUP | gone) != 0);
        }
        if events & (EPOLLOUT | gone) != 0 {
            self.write.count();
            self.wake_next(locked, Direction::Write, true);
        }
        if events & (EPOLLRDHUP | gone) != 0 {
            self.set(facts::HUNG_UP);
        }
        self.wake_polls(locked, |poll| poll.is_met_by(events));
    }

    /// Wakes the waiters of this descriptor that wait for several descriptors.
    fn wake_polls(&self, locked: &mut Locked, which: impl Fn(&PollNode) -> bool) {
        let mut node = PollNode::first(locked, &self.polls);
        // SAFETY: a node is taken out of the list before its stack frame ends.
        while let Some(poll) = unsafe { node.as_ref() } {
            if which(poll) {
                wake(locked, poll.waiter, Reason::Woken);
            }
            node = poll.next(locked.held());
        }
    }

    /// Wakes one waiter, or all. The woken waiter passes on the data that it leaves, see `pass_on`.
    fn wake_next(&self, locked: &mut Locked, direction: Direction, all: bool) {
        let mut next = self.side(direction).first();
        while let Some(waiter) = next {
            let held = locked.held();
            next = waiter.next_waiter.get(held);
            if waiter.state.get(held) == State::Parked {
                wake(locked, waiter, Reason::Woken);
                if !all {
                    break;
                }
            }
        }
    }

    /// Called after a call with this result, which may have left data. Wakes the next waiter for an
    /// attempt. After a task's call that waits, no data is left, and the task would wake itself.
    #[inline(always)]
    pub(crate) fn pass_on(&self, direction: Direction, result: isize) {
        let side = self.side(direction);
        if result != SUSPENDED && side.is_waited_for() && side.may_succeed() {
            self.wake_next(&mut lock(), direction, false);
        }
    }

    /// The kind of file that the descriptor with this number refers to.
    pub(crate) fn kind(&self, number: usize) -> Kind {
        match self.kind.load(Ordering::Relaxed) {
            0 => self.find_kind(number),
            1 => Kind::Stream,
            2 => Kind::Message,
            3 => Kind::Pipe,
            4 => Kind::Polled,
            5 => Kind::PolledReads,
            6 => Kind::Direct,
            _ => Kind::Name,
        }
    }

    #[cold]
    fn find_kind(&self, number: usize) -> Kind {
        let mut status: libc::stat = zeroed();
        if failed(sys!(SYS_fstat, number, &mut status)) {
            return Kind::Direct;
        }
        if number < FORKED_BELOW.load(Ordering::Relaxed) || number <= 2 {
            self.set(facts::SHARED);
        }
        let kind = match status.st_mode & libc::S_IFMT {
            libc::S_IFSOCK => {
                let (mut kind, mut length) = (0i32, 4u32);
                let option = libc::SO_TYPE;
                sys!(SYS_getsockopt, number, libc::SOL_SOCKET, option, &mut kind, &mut length);
                if kind == libc::SOCK_STREAM { Kind::Stream } else { Kind::Message }
            }
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => Kind::Direct,
            libc::S_IFCHR if is_always_ready(status.st_rdev) => Kind::Direct,
            // Events, timers and signals have no type; most take `RWF_NOWAIT` as pipes do.
            _ => Kind::Pipe,
        };
        self.set_kind(kind);
        kind
    }

    pub(crate) fn set_kind(&self, kind: Kind) {
        self.kind.store(kind as u8, Ordering::Relaxed);
    }

    /// Whether an attempt could succeed, as far as the engine knows.
    #[inline(always)]
    pub(crate) fn may_succeed(&self, direction: Direction) -> bool {
        !self.has(facts::REGISTERED) || self.side(direction).may_succeed()
    }

    /// The edges so far, to be asked for before an attempt.
    #[inline(always)]
    pub(crate) fn seen(&self, direction: Direction) -> Seen {
        self.side(direction).seen()
    }

    /// Notes that an attempt would have blocked.
    pub(crate) fn would_block(&self, direction: Direction, seen: Seen) {
        self.side(direction).exhaust(seen);
    }

    /// Notes that a read took less than it asked for, so the socket is empty.
    #[inline(always)]
    pub(crate) fn emptied(&self, seen: Seen) {
        let facts = self.facts.load(Ordering::Relaxed);
        if facts & (facts::REGISTERED | facts::HUNG_UP) == facts::REGISTERED {
            self.read.exhaust(seen);
        }
    }

    /// Whether the socket was empty when a thread last received by the ring. The answer is a hint:
    /// the ring finds out.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Relaxed)
    }

    pub(crate) fn set_drained(&self, drained: bool) {
        self.drained.store(drained, Ordering::Relaxed);
    }

    /// Makes a call while no other worker makes such a call. Each such call relies on not blocking,
    /// or on a change of the file's flags. Another call could break either condition.
    pub(crate) fn alone<T>(&self, call: impl FnOnce() -> T) -> T {
        if !lock::is_shared() {
            return call();
        }
        while self.busy.swap(true, Ordering::Acquire) {
            sys!(SYS_sched_yield);
        }
        let result = call();
        let was_busy = self.busy.swap(false, Ordering::Release);
        assert!(was_busy, "two workers made a call that one may make at a time");
        result
    }

    /// Before the number changes its meaning: forgets the state, and wakes the waiters.
    pub(crate) fn renew(&self, number: usize) {
        self.forget(number);
        if self.is_waited_for() {
            self.wake_all(&mut lock());
        }
    }

    /// Forgets the state of the descriptor. No call may be waiting for the descriptor.
    pub(crate) fn forget(&self, number: usize) {
        if self.has(facts::REGISTERED) && self.has(facts::SHARED) {
            // Another descriptor keeps the file open, so epoll would go on reporting its events.
            self.unregister(number);
        }
        self.generation.store(self.generation() + 1, Ordering::Relaxed);
        self.forget_facts();
        self.read.count();
        self.write.count();
    }

    /// Whether the current thread now has a helper accept, until
    /// [`has_accepted`](Self::has_accepted).
    pub(crate) fn begins_to_accept(&self) -> bool {
        !self.accepts.swap(true, Ordering::Acquire)
    }

    /// Notes that the helper has returned. Wakes the next thread in line.
    pub(crate) fn has_accepted(&self) {
        self.accepts.store(false, Ordering::Release);
        self.has_connections();
    }

    /// Lets the next waiting thread look for connections.
    pub(crate) fn has_connections(&self) {
        let mut locked = lock();
        self.read.count();
        self.wake_next(&mut locked, Direction::Read, false);
    }

    fn forget_facts(&self) {
        self.accepts.store(false, Ordering::Relaxed);
        self.kind.store(Kind::Unknown as u8, Ordering::Relaxed);
        self.facts.store(0, Ordering::Relaxed);
        self.set_drained(false);
    }

    /// Wakes calls on other workers that began to wait for the former file after
    /// [`renew`](Self::renew). These calls look again. Call it after the number's file has been
    /// closed or replaced.
    pub(crate) fn gone(&self) {
        if self.has(facts::REGISTERED | facts::REFUSED) || self.is_waited_for() {
            self.have_them_look_again();
        }
    }

    fn have_them_look_again(&self) {
        let mut locked = lock();
        ALL_EDGES.fetch_add(1, Ordering::Relaxed);
        self.read.count();
        self.write.count();
        self.wake_all(&mut locked);
    }

    fn wake_all(&self, locked: &mut Locked) {
        self.wake_next(locked, Direction::Read, true);
        self.wake_next(locked, Direction::Write, true);
        self.wake_polls(locked, |_| true);
    }

    /// Whether there is a waiter. Without the lock, the answer may be out of date at once.
    pub(crate) fn is_waited_for(&self) -> bool {
        let polls = !self.polls.load(Ordering::Relaxed).is_null();
        polls || self.read.is_waited_for() || self.write.is_waited_for()
    }
}

/// Whether a device never waits: `/dev/null`, `zero`, `full` and `urandom`. With `RWF_NOWAIT`, long
/// reads would end early.
fn is_always_ready(device: libc::dev_t) -> bool {
    const MEMORY: u32 = 1;
    libc::major(device) == MEMORY && matches!(libc::minor(device), 3 | 5 | 7 | 9)
}

/// Records a descriptor that the program opened just now.
pub(crate) fn opened(number: isize, kind: Kind, nonblocking: bool) {
    if let Some(descriptor) = get(number as usize) {
        descriptor.renew(number as usize);
        descriptor.set_kind(kind);
        let mode = if nonblocking { facts::NONBLOCKING } else { 0 };
        if number > 2 {
            descriptor.set(facts::MODE_KNOWN | mode);
        }
    }
}

/// A descriptor that is still unknown.
pub(crate) fn renewed(number: isize) {
    if let Some(descriptor) = get(number as usize) {
        descriptor.renew(number as usize);
    }
}

/// Called after a number's file has been closed, see [`Descriptor::gone`].
pub(crate) fn gone(number: usize) {
    if let Some(descriptor) = get(number) {
        descriptor.gone();
    }
}

/// Called after a copy of `from` has replaced `to`: see [`Descriptor::gone`].
pub(crate) fn replaced(from: usize, to: isize) {
    if let (Some(old), Some(new)) = (get(from), get(to as usize)) {
        new.forget_facts();
        new.share();
        old.share();
        new.have_them_look_again();
    }
}

/// Notes that two numbers now refer to one file. The second number is new.
pub(crate) fn duplicated(from: usize, to: isize) {
    if let (Some(old), Some(new)) = (get(from), get(to as usize)) {
        new.renew(to as usize);
        new.share();
        old.share();
    }
}

/// After a fork, parent and child share the open files. The child's epoll is a new one.
pub(crate) fn share_all(in_child: bool) {
    FORKED_BELOW.store(HIGHEST.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    for number in 0..=HIGHEST.load(Ordering::Relaxed) {
        let Some(descriptor) = get(number) else { break };
        descriptor.share();
        if in_child {
            descriptor.clear(facts::REGISTERED | facts::REFUSED);
            descriptor.read.count();
            descriptor.write.count();
            descriptor.busy.store(false, Ordering::Relaxed);
            descriptor.accepts.store(false, Ordering::Relaxed);
            descriptor.read.clear();
            descriptor.write.clear();
            descriptor.polls.store(core::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}
