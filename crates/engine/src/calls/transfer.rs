//! Calls that read, write, send and receive. The engine makes attempts that do not block, and parks
//! in between.

use libc::{MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_WAITALL};

use crate::calls::files;
use crate::descriptors::closed;
use crate::descriptors::edges::Seen;
use crate::descriptors::facts;
use crate::descriptors::receive::{Outcome, receive};
use crate::descriptors::registry::{self, Descriptor, Direction, Kind};
use crate::descriptors::ring;
use crate::entry::frame::Frame;
use crate::kernel::clock::NEVER;
use crate::kernel::lock::lock;
use crate::kernel::sys::{self, EAGAIN, EINTR, EINVAL, RESTART, SUSPENDED, error, failed, sys};
use crate::kernel::user;
use crate::schedule::helpers::{Interrupted, offload, offload_on_kept};
use crate::schedule::pump::count_call;
use crate::schedule::waiter::Reason;
use crate::schedule::worker::current;

/// A file that does not take `RWF_NOWAIT`.
const NOT_SUPPORTED: isize = error(libc::EOPNOTSUPP);

/// A call that transfers bytes, by the shape of its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A buffer and its length.
    Buffer,
    /// A list of buffers.
    Vector,
    /// A buffer, its length, flags, an address.
    Socket,
    /// A message header, flags.
    Message,
}

struct Transfer<'a> {
    frame: &'a Frame,
    shape: Shape,
    direction: Direction,
    number: usize,
    descriptor: &'static Descriptor,
    /// The generation of the descriptor when the call began or resumed.
    generation: u32,
    /// The number of bytes transferred so far.
    done: usize,
    /// The bytes that must be transferred before the call returns. Zero if any number of bytes is
    /// enough.
    wanted: usize,
}

/// read(2)
pub(crate) fn read(frame: &mut Frame) -> isize {
    transfer(frame, Shape::Buffer, Direction::Read, 0)
}

/// write(2)
pub(crate) fn write(frame: &mut Frame) -> isize {
    transfer(frame, Shape::Buffer, Direction::Write, frame.rdx)
}

/// readv(2)
pub(crate) fn readv(frame: &mut Frame) -> isize {
    transfer(frame, Shape::Vector, Direction::Read, 0)
}

/// writev(2)
pub(crate) fn writev(frame: &mut Frame) -> isize {
    match total(frame.rsi, frame.rdx) {
        Some(wanted) => transfer(frame, Shape::Vector, Direction::Write, wanted),
        None => frame.pass(),
    }
}

/// Flags of a receiving call that does not wait: the call fails if there is no data.
const AT_ONCE: i32 = MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB;

/// recvfrom(2)
pub(crate) fn recvfrom(frame: &mut Frame) -> isize {
    if frame.r10 as i32 & AT_ONCE != 0 {
        return attempt(frame);
    }
    let wanted = if frame.r10 as i32 & MSG_WAITALL != 0 { frame.rdx } else { 0 };
    transfer(frame, Shape::Socket, Direction::Read, wanted)
}

/// sendto(2)
pub(crate) fn sendto(frame: &mut Frame) -> isize {
    if frame.r10 as i32 & MSG_DONTWAIT != 0 {
        return attempt(frame);
    }
    transfer(frame, Shape::Socket, Direction::Write, frame.rdx)
}

/// recvmsg(2)
pub(crate) fn recvmsg(frame: &mut Frame) -> isize {
    let flags = frame.rdx as i32;
    if flags & AT_ONCE != 0 {
        return attempt(frame);
    }
    if flags & MSG_WAITALL != 0 {
        // The engine would have to cut the remainder out of the message's buffers.
        return offload(frame.number(), frame.arguments(), Interrupted::Restarts);
    }
    transfer(frame, Shape::Message, Direction::Read, 0)
}

/// sendmsg(2)
pub(crate) fn sendmsg(frame: &mut Frame) -> isize {
    if frame.rdx as i32 & MSG_DONTWAIT != 0 {
        return attempt(frame);
    }
    // msg_iov and msg_iovlen are the third and fourth field of the header.
    let buffers = user::read::<[u64; 2]>(frame.rsi.wrapping_add(16));
    match buffers.ok().and_then(|[list, count]| total(list as usize, count as usize)) {
        Some(wanted) => transfer(frame, Shape::Message, Direction::Write, wanted),
        None => frame.pass(),
    }
}

/// sendmmsg(2): one message after the other.
pub(crate) fn sendmmsg(frame: &mut Frame) -> isize {
    many(frame, libc::SYS_sendmsg, sendmsg)
}

/// recvmmsg(2): waits for the first message, and takes the others that are there.
pub(crate) fn recvmmsg(frame: &mut Frame) -> isize {
    const MSG_WAITFORONE: i32 = 0x10000;
    if frame.r8 != 0 {
        return offload(frame.number(), frame.arguments(), Interrupted::Fails);
    }
    if frame.r10 as i32 & MSG_DONTWAIT != 0 {
        return attempt(frame);
    }
    let forone = frame.r10 as i32 & MSG_WAITFORONE != 0;
    frame.r10 &= !(MSG_WAITFORONE as usize);
    let mut taken = 0;
    many(frame, libc::SYS_recvmsg, |one| {
        if forone && taken > 0 {
            one.rdx |= MSG_DONTWAIT as usize;
        }
        taken += 1;
        recvmsg(one)
    })
}

fn many(frame: &mut Frame, number: i64, mut call: impl FnMut(&mut Frame) -> isize) -> isize {
    let (list, count) = (frame.rsi, (frame.rdx as u32).min(1024) as usize);
    for index in 0..count {
        let header = list + index * size_of::<libc::mmsghdr>();
        let mut one = frame.with(number, [frame.rdi, header, frame.r10, 0, 0, 0]);
        let result = call(&mut one);
        if failed(result) {
            return if index > 0 { index as isize } else { result };
        }
        let length_at = header + core::mem::offset_of!(libc::mmsghdr, msg_len);
        if let Err(fault) = user::write(length_at, &(result as u32)) {
            return fault;
        }
    }
    count as isize
}

/// The bytes of all buffers of a list. `None` if the list is wrong and the kernel must report the
/// error.
fn total(list: usize, count: usize) -> Option<usize> {
    if count > 1024 {
        return None;
    }
    let mut total = 0usize;
    for index in 0..count {
        let length: usize = user::read(list + index * size_of::<libc::iovec>() + 8).ok()?;
        total = total.checked_add(length)?;
    }
    Some(total)
}

/// The number of bytes that the task's call had transferred when it was suspended.
pub(crate) fn done_before() -> usize {
    current().task.get().map_or(0, |task| task.done.get())
}

/// Handles a call that does not wait by itself.
pub(crate) fn attempt(frame: &Frame) -> isize {
    count_call();
    frame.pass()
}

fn transfer(frame: &mut Frame, shape: Shape, direction: Direction, wanted: usize) -> isize {
    let number = frame.rdi;
    let Some(descriptor) = registry::get(number) else { return frame.pass() };
    let kind = descriptor.kind(number);
    let is_socket = matches!(kind, Kind::Stream | Kind::Message);
    let wants_socket = matches!(shape, Shape::Socket | Shape::Message);
    if kind == Kind::Direct || descriptor.has(facts::NONBLOCKING) || wants_socket && !is_socket {
        return attempt(frame);
    }
    if kind == Kind::Name && shape == Shape::Buffer && direction == Direction::Write {
        return files::write_name(frame, descriptor);
    }
    let (generation, done) = (descriptor.generation(), done_before());
    let mut transfer =
        Transfer { frame, shape, direction, number, descriptor, generation, done, wanted };
    let result = transfer.run(kind);
    descriptor.pass_on(direction, result);
    result
}

impl Transfer<'_> {
    fn run(&mut self, kind: Kind) -> isize {
        let mut deadline = None;
        let mut by_ring = self.suits_ring(kind);
        loop {
            if self.is_cut_off() {
                return self.done as isize;
            }
            if self.has_no_poll() {
                return self.write_at_once_or_offload();
            }
            let seen = self.descriptor.seen(self.direction);
            let skipped = by_ring && self.descriptor.is_drained();
            if !skipped && self.descriptor.may_succeed(self.direction) {
                let result = self.attempt(self.descriptor.kind(self.number));
                if result != EAGAIN {
                    if let Some(result) = self.account(result, kind, seen) {
                        count_call();
                        return result;
                    }
                    continue;
                }
                if self.has_no_poll() {
                    continue;
                }
                self.descriptor.would_block(self.direction, seen);
            }
            let nonblocking = match self.descriptor.mode(self.number) {
                Ok(nonblocking) => nonblocking,
                Err(error) => return self.so_far(error),
            };
            if nonblocking {
                // The kernel checks the arguments before it checks whether the call would block.
                let looked = self.descriptor.kind(self.number) == Kind::Polled && self.done == 0;
                return if looked { self.frame.pass() } else { self.so_far(EAGAIN) };
            }
            let deadline = *deadline.get_or_insert_with(|| {
                self.descriptor.socket_deadline(self.number, self.direction)
            });
            if by_ring {
                match self.receive(deadline) {
                    Outcome::Again => by_ring = false,
                    Outcome::TimedOut => return self.so_far(EAGAIN),
                    Outcome::Interrupted => return self.so_far(interruption(deadline)),
                    Outcome::Result(result) => {
                        if let Some(result) = self.account(result, kind, seen) {
                            return result;
                        }
                    }
                }
            } else if let Some(result) = self.wait(deadline, seen) {
                return result;
            }
        }
    }

    /// Whether the ring can make the call: the call fills one buffer from a stream. The ring is not
    /// used if other processes could set `O_NONBLOCK` meanwhile.
    fn suits_ring(&self, kind: Kind) -> bool {
        let plain = match self.shape {
            Shape::Buffer => true,
            Shape::Socket => self.frame.r8 == 0 && self.frame.r10 as i32 & !MSG_WAITALL == 0,
            Shape::Vector | Shape::Message => false,
        };
        ring::is_active()
            && current().task.get().is_none()
            && plain
            && self.direction == Direction::Read
            && kind == Kind::Stream
            && self.frame.rdx != 0
            && self.descriptor.is_known_to_block()
    }

    /// Parks the thread until the kernel has received.
    fn receive(&self, deadline: u64) -> Outcome {
        let (at, left) = (self.frame.rsi + self.done, self.frame.rdx - self.done);
        receive(self.number, at, left, deadline)
    }

    /// Parks the thread. Returns the call's result if the wait has ended the call.
    fn wait(&self, deadline: u64, seen: Seen) -> Option<isize> {
        let mut locked = lock();
        if self.is_cut_off() {
            return Some(self.done as isize);
        }
        let generation = self.descriptor.generation();
        let reason = self.descriptor.wait(&mut locked, self.number, self.direction, deadline, seen);
        drop(locked);
        match reason {
            // epoll does not report this file, so a helper waits instead.
            None => Some(self.offload_rest()),
            Some(reason)
                if reason != Reason::Suspended && self.descriptor.generation() != generation =>
            {
                self.go_on_with_file()
            }
            Some(Reason::Woken) => None,
            Some(Reason::Suspended) => Some(self.suspend()),
            Some(Reason::TimedOut) => Some(self.last_attempt(EAGAIN)),
            Some(Reason::Interrupted) => Some(self.last_attempt(interruption(deadline))),
        }
    }

    /// Ends the call. As in the kernel, bytes that come together with a signal or the deadline
    /// count.
    fn last_attempt(&self, otherwise: isize) -> isize {
        match self.attempt(self.descriptor.kind(self.number)) {
            EAGAIN => self.so_far(otherwise),
            count @ 1.. => self.done as isize + count,
            result => self.so_far(result),
        }
    }

    /// Since a part was transferred, another worker has given the number another file. The rest of
    /// the call must not go to that file.
    fn is_cut_off(&self) -> bool {
        self.done > 0 && self.descriptor.generation() != self.generation
    }

    /// Leaves the task's call, and records what the call has transferred so that it can resume.
    fn suspend(&self) -> isize {
        if let Some(task) = current().task.get() {
            task.done.set(self.done);
        }
        SUSPENDED
    }

    fn offload_rest(&self) -> isize {
        if self.done > 0 {
            return self.done as isize;
        }
        offload(self.frame.number(), self.frame.arguments(), Interrupted::Restarts)
    }

    /// The descriptor was closed meanwhile; its file is still there.
    fn go_on_with_file(&self) -> Option<isize> {
        let frame = self.frame;
        if self.done > 0 {
            if let Some(kept) = closed::goes_on_with(self.number) {
                closed::give_back(&mut lock(), kept);
            }
            return Some(self.done as isize);
        }
        offload_on_kept(frame.number(), frame.arguments(), Interrupted::Restarts)
    }

    /// The number of transferred bytes, or else the error.
    fn so_far(&self, error: isize) -> isize {
        if self.done > 0 { self.done as isize } else { error }
    }

    /// Takes note of an attempt that did not block. Returns the call's result if the call is over.
    fn account(&mut self, result: isize, kind: Kind, seen: Seen) -> Option<isize> {
        if result <= 0 {
            return Some(self.so_far(result));
        }
        let count = result as usize;
        let short = matches!(self.shape, Shape::Buffer | Shape::Socket)
            && self.direction == Direction::Read
            && kind == Kind::Stream
            && count < self.frame.rdx - self.done
            && (self.shape == Shape::Buffer || self.frame.r10 as i32 & MSG_PEEK == 0);
        if short {
            self.descriptor.emptied(seen);
        }
        if ring::is_active() && self.direction == Direction::Read {
            self.descriptor.set_drained(short);
        }
        self.done += count;
        // Messages are transferred whole. Only streams continue after a part.
        let goes_on = self.done < self.wanted && matches!(kind, Kind::Stream | Kind::Pipe);
        (!goes_on).then_some(self.done as isize)
    }

    /// One attempt that does not block.
    fn attempt(&self, kind: Kind) -> isize {
        let frame = self.frame;
        let (number, done) = (self.number, self.done);
        match (kind, self.shape, self.direction) {
            (Kind::Stream | Kind::Message, Shape::Buffer, Direction::Read) => {
                sys!(SYS_recvfrom, number, frame.rsi, frame.rdx, MSG_DONTWAIT, 0, 0)
            }
            (Kind::Stream | Kind::Message, Shape::Buffer, Direction::Write) => {
                let (at, left) = (frame.rsi + done, frame.rdx - done);
                sys!(SYS_sendto, number, at, left, MSG_DONTWAIT, 0, 0)
            }
            (Kind::Stream | Kind::Message, Shape::Socket, _) => {
                let (at, left) = (frame.rsi + done, frame.rdx - done);
                let flags = (frame.r10 as i32 | MSG_DONTWAIT) & !MSG_WAITALL;
                self.as_asked([number, at, left, flags as usize, frame.r8, frame.r9])
            }
            (Kind::Stream | Kind::Message, Shape::Message, _) if done == 0 => {
                let flags = frame.rdx as i32 | MSG_DONTWAIT;
                self.as_asked([number, frame.rsi, flags as usize, 0, 0, 0])
            }
            (Kind::Pipe | Kind::Stream | Kind::Message, ..) => self.attempt_without_waiting(),
            _ => self.attempt_when_ready(),
        }
    }

    /// The call that the program made, with other arguments.
    fn as_asked(&self, arguments: sys::Arguments) -> isize {
        // SAFETY: the program's own call, for the rest of its own buffer.
        unsafe { sys::call(self.frame.number(), arguments) }
    }

    /// `RWF_NOWAIT`, as pipes and some other files take it.
    fn attempt_without_waiting(&self) -> isize {
        const RWF_NOWAIT: i32 = 8;
        let (number, end) = (self.number, usize::MAX);
        let result = self.with_rest(|list, count| match self.direction {
            Direction::Read => sys!(SYS_preadv2, number, list, count, end, end, RWF_NOWAIT),
            Direction::Write => sys!(SYS_pwritev2, number, list, count, end, end, RWF_NOWAIT),
        });
        match (self.direction, result) {
            (Direction::Read, NOT_SUPPORTED) => {
                self.descriptor.set_kind(Kind::Polled);
                self.attempt_when_ready()
            }
            (Direction::Write, NOT_SUPPORTED | EINVAL) => {
                self.descriptor.set_kind(Kind::PolledReads);
                EAGAIN
            }
            _ => result,
        }
    }

    /// Whether nothing tells how many bytes the file would take. poll(2) says at most that it takes
    /// some: a terminal, a FIFO that was opened by name, an event counter. Many files never report
    /// that they can be written: `/dev/kmsg`, the permissions of fanotify(7).
    fn has_no_poll(&self) -> bool {
        let kind = self.descriptor.kind(self.number);
        self.direction == Direction::Write && matches!(kind, Kind::Polled | Kind::PolledReads)
    }

    /// Writes to such a file. An event counter that is ready takes a one.
    fn write_at_once_or_offload(&self) -> isize {
        match self.descriptor.mode(self.number) {
            Err(error) => return self.so_far(error),
            Ok(true) => return attempt(self.frame),
            Ok(false) => {}
        }
        let adds_one = self.shape == Shape::Buffer
            && self.frame.rdx == size_of::<u64>()
            && user::read::<u64>(self.frame.rsi) == Ok(1);
        if adds_one {
            let result = self.descriptor.alone(|| {
                let ready = sys::is_ready(self.number, libc::POLLOUT);
                if ready { self.frame.pass() } else { EAGAIN }
            });
            if result != EAGAIN {
                return result;
            }
        }
        self.offload_rest()
    }

    /// Makes the call with a list of the buffers that are left.
    fn with_rest(&self, call: impl FnOnce(usize, usize) -> isize) -> isize {
        let one = |base: usize, length: usize| libc::iovec {
            iov_base: base as *mut libc::c_void,
            iov_len: length,
        };
        let (list, count) = match self.shape {
            Shape::Buffer | Shape::Socket => {
                let (at, left) = (self.frame.rsi + self.done, self.frame.rdx - self.done);
                let rest = one(at, left);
                return call(&raw const rest as usize, 1);
            }
            Shape::Vector => (self.frame.rsi, self.frame.rdx),
            Shape::Message => match user::read::<[u64; 2]>(self.frame.rsi + 16) {
                Ok([list, count]) => (list as usize, count as usize),
                Err(fault) => return fault,
            },
        };
        if self.done == 0 {
            return call(list, count);
        }
        // The first buffer with remaining bytes, cut to these bytes. Later calls transfer the other
        // buffers.
        let mut skipped = 0;
        for index in 0..count {
            let entry = list + index * size_of::<libc::iovec>();
            match user::read::<libc::iovec>(entry) {
                Ok(buffer) if skipped + buffer.iov_len > self.done => {
                    let inside = self.done - skipped;
                    let rest = one(buffer.iov_base as usize + inside, buffer.iov_len - inside);
                    return call(&raw const rest as usize, 1);
                }
                Ok(buffer) => skipped += buffer.iov_len,
                Err(fault) => return fault,
            }
        }
        0
    }

    /// Asks first whether the call would block. Used to read from files that offer no better way.
    fn attempt_when_ready(&self) -> isize {
        self.descriptor.alone(|| self.attempt_if_ready())
    }

    fn attempt_if_ready(&self) -> isize {
        if sys::is_ready(self.number, libc::POLLIN) { self.frame.pass() } else { EAGAIN }
    }
}

/// How a call with this deadline ends when a signal comes.
fn interruption(deadline: u64) -> isize {
    if deadline == NEVER { RESTART } else { EINTR }
}
