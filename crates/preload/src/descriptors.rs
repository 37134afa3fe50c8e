//! What the engine knows of each descriptor: its kind, its flags, who waits for it.
//!
//! A descriptor is registered with epoll when a thread first waits for it, for all events, edge-triggered,
//! and stays so until it is closed. Between two edges, the engine remembers what it has seen: a read that
//! came up short has emptied the socket, so the next one parks without another attempt.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use libc::{EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP};

use crate::away::MOST_DESCRIPTORS;
use crate::bell::EPOLL;
use crate::clock::Nanoseconds;
use crate::edges::{Seen, Side};
use crate::fact;
use crate::lock::{self, Locked, Setting, lock};
use crate::own;
use crate::poll_node::PollNode;
use crate::scheduler::{park, wake};
use crate::sys::{self, error, failed, sys};
use crate::waiter::Reason;
use crate::worker::{current, waiter};

/// What a descriptor refers to, as far as waiting is concerned.
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
    /// A file that can be polled and nothing more: terminals, devices.
    Polled,
    /// A file that is always ready: regular files, directories.
    Direct,
    /// What is written is the name of a thread (`/proc/self/task/…/comm`).
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
    pub(crate) polls: Cell<*const PollNode>,
    /// The last call on the ring has emptied the socket: the next attempt is the ring's.
    drained: AtomicBool,
    /// A worker makes a call that no other may make at the same time.
    busy: AtomicBool,
    /// The socket's timeouts for reading and writing, in nanoseconds; zero for none.
    pub(crate) timeouts: [Cell<Nanoseconds>; 2],
    /// The thread that a descriptor of the kind `Name` names.
    pub(crate) named: Cell<i32>,
    /// Calls that go on with a file whose own descriptor was closed, see `kept.rs`.
    pub(crate) kept_for: Cell<u32>,
}

static TABLE: Setting<*const Descriptor> = Setting::new(core::ptr::null());
/// How many entries the table has.
static ROOM: Setting<usize> = Setting::new(0);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);
/// Events so far, of all descriptors.
static ALL_EDGES: AtomicU32 = AtomicU32::new(0);
/// So many entries of the table can be used.
static OPENED: AtomicUsize = AtomicUsize::new(0);
/// What had a lower number when the process started or was forked last is shared.
static FORKED_BELOW: Setting<usize> = Setting::new(0);

/// Makes room for the table. All zeros are descriptors of which nothing is known.
pub(crate) fn reserve() -> bool {
    let room = sys::affordable(MOST_DESCRIPTORS, size_of::<Descriptor>());
    ROOM.set(room);
    let table = sys::reserve(room * size_of::<Descriptor>());
    TABLE.set(table.unwrap_or(0) as *const Descriptor);
    table.is_some() && reach(0)
}

/// Sees to it that there is an entry for `number`.
#[cold]
fn reach(number: usize) -> bool {
    /// The table grows by so many entries; `MOST_DESCRIPTORS` is a multiple.
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

/// What is open when the program starts may be open in other processes too.
pub(crate) fn inherit() {
    /// Descriptors that a program inherits have low numbers.
    const LOW: usize = 256;
    let mut polls = [libc::pollfd { fd: -1, events: 0, revents: 0 }; LOW];
    polls.iter_mut().enumerate().for_each(|(number, poll)| poll.fd = number as i32);
    // One call tells which numbers refer to nothing.
    sys!(SYS_poll, polls.as_mut_ptr(), LOW, 0);
    let highest = polls.iter().rposition(|poll| poll.revents & libc::POLLNVAL == 0);
    FORKED_BELOW.set(highest.map_or(0, |number| number + 1));
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
    // SAFETY: the table has so many entries, is never taken away, and zeros are an entry.
    Some(unsafe { &*TABLE.get().add(number as usize) })
}

/// The highest number that has been seen.
pub(crate) fn highest() -> usize {
    HIGHEST.load(Ordering::Relaxed)
}

/// Whether the number belongs to the engine.
pub(crate) fn is_ours(number: usize) -> bool {
    let number = number as i32;
    number >= 0 && own::protected().contains(&number)
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

/// The data of a descriptor's events.
fn data(number: usize, descriptor: &Descriptor) -> u64 {
    u64::from(descriptor.generation.load(Ordering::Relaxed)) << 32 | u64::from(number as u32)
}

impl Descriptor {
    fn side(&self, direction: Direction) -> &Side {
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
            self.set(fact::HUNG_UP);
        }
        let mut node = self.polls.get();
        while !node.is_null() {
            // SAFETY: a node is taken out of the list before its stack frame ends.
            let poll = unsafe { &*node };
            wake(locked, poll.waiter, Reason::Woken);
            node = poll.next();
        }
    }

    /// Wakes one that waits, or all. The one passes on what it leaves, see `pass_on`.
    fn wake_next(&self, locked: &mut Locked, direction: Direction, all: bool) {
        let first = &self.side(direction).first;
        while let Some(waiter) = first.get() {
            first.set(waiter.next_waiter.get());
            wake(locked, waiter, Reason::Woken);
            if !all {
                break;
            }
        }
    }

    /// After a call that may have left something: the next that waits has a try.
    #[inline(always)]
    pub(crate) fn pass_on(&self, direction: Direction) {
        let side = self.side(direction);
        if side.first.get().is_some() && side.may_succeed() {
            self.wake_next(&mut lock(), direction, false);
        }
    }

    /// What the descriptor with this number refers to.
    pub(crate) fn kind(&self, number: usize) -> Kind {
        match self.kind.load(Ordering::Relaxed) {
            0 => self.find_kind(number),
            1 => Kind::Stream,
            2 => Kind::Message,
            3 => Kind::Pipe,
            4 => Kind::Polled,
            5 => Kind::Direct,
            _ => Kind::Name,
        }
    }

    #[cold]
    fn find_kind(&self, number: usize) -> Kind {
        // SAFETY: all zeros are a `stat`.
        let mut status: libc::stat = unsafe { core::mem::zeroed() };
        if failed(sys!(SYS_fstat, number, &raw mut status)) {
            return Kind::Direct;
        }
        if number < FORKED_BELOW.get() || number <= 2 {
            self.set(fact::SHARED);
        }
        let kind = match status.st_mode & libc::S_IFMT {
            libc::S_IFSOCK => {
                let (mut kind, mut length) = (0i32, 4u32);
                let option = libc::SO_TYPE;
                let (kind_at, length_at) = (&raw mut kind, &raw mut length);
                sys!(SYS_getsockopt, number, libc::SOL_SOCKET, option, kind_at, length_at);
                if kind == libc::SOCK_STREAM { Kind::Stream } else { Kind::Message }
            }
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => Kind::Direct,
            // Events, timers and signals have no type; most take `RWF_NOWAIT` as pipes do.
            _ => Kind::Pipe,
        };
        self.set_kind(kind);
        kind
    }

    pub(crate) fn set_kind(&self, kind: Kind) {
        self.kind.store(kind as u8, Ordering::Relaxed);
    }

    /// Whether `O_NONBLOCK` is set. Where others could change it, the kernel is asked each time.
    #[inline(always)]
    pub(crate) fn is_nonblocking(&self, number: usize) -> bool {
        if self.has(fact::MODE_KNOWN) { self.has(fact::NONBLOCKING) } else { self.ask_mode(number) }
    }

    #[cold]
    fn ask_mode(&self, number: usize) -> bool {
        let flags = sys!(SYS_fcntl, number, libc::F_GETFL);
        let nonblocking = failed(flags) || flags as i32 & libc::O_NONBLOCK != 0;
        self.set_mode(nonblocking);
        nonblocking
    }

    /// Remembers `O_NONBLOCK`, unless the flag can change behind the engine's back.
    pub(crate) fn set_mode(&self, nonblocking: bool) {
        if self.has(fact::SHARED) {
            return;
        }
        self.clear(fact::NONBLOCKING);
        self.set(fact::MODE_KNOWN | if nonblocking { fact::NONBLOCKING } else { 0 });
    }

    /// From now on, others refer to the same file.
    pub(crate) fn share(&self) {
        self.set(fact::SHARED);
        self.clear(fact::MODE_KNOWN | fact::NONBLOCKING | fact::TIMEOUTS_KNOWN);
    }

    /// Whether an attempt could succeed, as far as is known.
    #[inline(always)]
    pub(crate) fn may_succeed(&self, direction: Direction) -> bool {
        !self.has(fact::REGISTERED) || self.side(direction).may_succeed()
    }

    /// The edges so far, to be asked for before an attempt.
    #[inline(always)]
    pub(crate) fn seen(&self, direction: Direction) -> Seen {
        self.side(direction).seen()
    }

    /// An attempt would have blocked.
    pub(crate) fn would_block(&self, direction: Direction, seen: Seen) {
        self.side(direction).exhaust(seen);
    }

    /// A read took less than it asked for, so that the socket is empty.
    #[inline(always)]
    pub(crate) fn emptied(&self, seen: Seen) {
        let facts = self.facts.load(Ordering::Relaxed);
        if facts & (fact::REGISTERED | fact::HUNG_UP) == fact::REGISTERED {
            self.read.exhaust(seen);
        }
    }

    /// Whether the socket was empty when a thread last received by way of the ring. A hint, for the ring finds out.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Relaxed)
    }

    pub(crate) fn set_drained(&self, drained: bool) {
        self.drained.store(drained, Ordering::Relaxed);
    }

    /// Whether `O_NONBLOCK` is known not to be set.
    pub(crate) fn is_known_to_block(&self) -> bool {
        let facts = self.facts.load(Ordering::Relaxed);
        facts & (fact::MODE_KNOWN | fact::NONBLOCKING) == fact::MODE_KNOWN
    }

    /// Makes a call while no other worker makes one like it: a look whether the call would block, or a change of
    /// the file's flags, would not hold.
    pub(crate) fn alone<T>(&self, call: impl FnOnce() -> T) -> T {
        if !lock::is_shared() {
            return call();
        }
        while self.busy.swap(true, Ordering::Acquire) {
            sys!(SYS_sched_yield);
        }
        let result = call();
        self.busy.store(false, Ordering::Release);
        result
    }

    /// Sees to it that epoll tells of the descriptor.
    pub(crate) fn register(&self, number: usize) -> bool {
        if self.has(fact::REGISTERED) {
            return true;
        }
        if self.has(fact::REFUSED) {
            return false;
        }
        let events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET;
        let event = libc::epoll_event { events: events as u32, u64: data(number, self) };
        let control = |operation| {
            sys!(SYS_epoll_ctl, EPOLL.get(), operation, number as i32, &raw const event)
        };
        let mut result = control(libc::EPOLL_CTL_ADD);
        if result == error(libc::EEXIST) {
            // A former descriptor of this number and this file.
            result = control(libc::EPOLL_CTL_MOD);
        }
        self.set(if failed(result) { fact::REFUSED } else { fact::REGISTERED });
        !failed(result)
    }

    /// Parks the current thread until an attempt is worth while. `None`: epoll does not tell.
    pub(crate) fn wait(
        &'static self,
        locked: &mut Locked,
        number: usize,
        direction: Direction,
        deadline: Nanoseconds,
        seen: Seen,
    ) -> Option<Reason> {
        if !self.register(number) {
            return None;
        }
        if self.seen(direction) != seen {
            return Some(Reason::Woken);
        }
        let (waiter, side) = (waiter(), self.side(direction));
        waiter.waits_for.set(number);
        side.add(locked, waiter);
        let reason = park(locked, deadline);
        match reason {
            Reason::Woken => {}
            Reason::Suspended => self.keep_task(side),
            Reason::TimedOut | Reason::Interrupted => side.remove(locked, waiter),
        }
        Some(reason)
    }

    /// The current call's task waits for this file, and for no other of its number.
    fn keep_task(&'static self, side: &'static Side) {
        if let Some(task) = current().task.get() {
            task.waits_in(side, self.generation());
        }
    }

    /// Forgets what was known: the number refers to nothing, or to another file.
    pub(crate) fn renew(&self, number: usize) {
        if self.has(fact::REGISTERED) && self.has(fact::SHARED) {
            // The file lives on elsewhere, and epoll would go on telling of it.
            let event = libc::epoll_event { events: 0, u64: 0 };
            let (operation, event) = (libc::EPOLL_CTL_DEL, &raw const event);
            sys!(SYS_epoll_ctl, EPOLL.get(), operation, number as i32, event);
        }
        self.generation.store(self.generation() + 1, Ordering::Relaxed);
        self.kind.store(Kind::Unknown as u8, Ordering::Relaxed);
        self.facts.store(0, Ordering::Relaxed);
        self.set_drained(false);
        self.read.count();
        self.write.count();
        // A poll goes on: it is woken by its other descriptors, and then sees that this one is gone.
        if self.is_waited_for() {
            let mut locked = lock();
            self.wake_next(&mut locked, Direction::Read, true);
            self.wake_next(&mut locked, Direction::Write, true);
        }
    }

    /// Whether threads wait, whose calls go on with the file when the descriptor is closed. A task's call ends.
    pub(crate) fn is_waited_for_by_threads(&self) -> bool {
        let waits = |side: &Side| side.iter().any(|waiter| waiter.home().is_none());
        waits(&self.read) || waits(&self.write)
    }

    fn is_waited_for(&self) -> bool {
        self.read.first.get().is_some() || self.write.first.get().is_some()
    }
}

/// A descriptor that the program opened just now.
pub(crate) fn opened(number: isize, kind: Kind, nonblocking: bool) {
    if let Some(descriptor) = get(number as usize) {
        descriptor.renew(number as usize);
        descriptor.set_kind(kind);
        let mode = if nonblocking { fact::NONBLOCKING } else { 0 };
        if number > 2 {
            descriptor.set(fact::MODE_KNOWN | mode);
        }
    }
}

/// A descriptor of which nothing is known yet.
pub(crate) fn renewed(number: isize) {
    if let Some(descriptor) = get(number as usize) {
        descriptor.renew(number as usize);
    }
}

/// Two numbers refer to one file now.
pub(crate) fn duplicated(from: usize, to: isize) {
    if let (Some(old), Some(new)) = (get(from), get(to as usize)) {
        new.renew(to as usize);
        new.share();
        old.share();
    }
}

/// After a fork, parent and child share what is open. The child's epoll is a new one.
pub(crate) fn share_all(in_child: bool) {
    FORKED_BELOW.set(HIGHEST.load(Ordering::Relaxed) + 1);
    for number in 0..=HIGHEST.load(Ordering::Relaxed) {
        let Some(descriptor) = get(number) else { break };
        descriptor.share();
        if in_child {
            descriptor.clear(fact::REGISTERED | fact::REFUSED);
            descriptor.read.count();
            descriptor.write.count();
            descriptor.busy.store(false, Ordering::Relaxed);
            descriptor.read.first.set(None);
            descriptor.write.first.set(None);
            descriptor.polls.set(core::ptr::null());
        }
    }
}
