//! Calls that read, write, send and receive. The engine makes attempts that do not block, and parks
//! in between.

mod attempt;

use libc::{MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_WAITALL};

use crate::calls::files;
use crate::calls::receive::{Received, receive};
use crate::descriptors::closed;
use crate::descriptors::facts;
use crate::descriptors::registry::{self, Descriptor, Direction, Kind};
use crate::descriptors::ring;
use crate::kernel::clock::NEVER;
use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::sys::{EAGAIN, EINTR, RESTART, SUSPENDED, failed};
use crate::kernel::user;
use crate::schedule::edges::Seen;
use crate::schedule::waiter::Reason;
use crate::schedule::worker::current;
use crate::workers::helpers::{Interrupted, offload, offload_on_kept};
use crate::workers::pump::count_call;

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
    transfer(frame, Shape::Buffer, Direction::Write, frame.argument(2))
}

/// readv(2)
pub(crate) fn readv(frame: &mut Frame) -> isize {
    transfer(frame, Shape::Vector, Direction::Read, 0)
}

/// writev(2)
pub(crate) fn writev(frame: &mut Frame) -> isize {
    match total(frame.argument(1), frame.argument(2)) {
        Some(wanted) => transfer(frame, Shape::Vector, Direction::Write, wanted),
        None => frame.pass(),
    }
}

/// Flags of a receiving call that does not wait: the call fails if there is no data.
const AT_ONCE: i32 = MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB;

/// recvfrom(2)
pub(crate) fn recvfrom(frame: &mut Frame) -> isize {
    if frame.argument(3) as i32 & AT_ONCE != 0 {
        return attempt(frame);
    }
    let wanted = if frame.argument(3) as i32 & MSG_WAITALL != 0 { frame.argument(2) } else { 0 };
    transfer(frame, Shape::Socket, Direction::Read, wanted)
}

/// sendto(2)
pub(crate) fn sendto(frame: &mut Frame) -> isize {
    if frame.argument(3) as i32 & MSG_DONTWAIT != 0 {
        return attempt(frame);
    }
    transfer(frame, Shape::Socket, Direction::Write, frame.argument(2))
}

/// recvmsg(2)
pub(crate) fn recvmsg(frame: &mut Frame) -> isize {
    let flags = frame.argument(2) as i32;
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
    if frame.argument(2) as i32 & MSG_DONTWAIT != 0 {
        return attempt(frame);
    }
    // msg_iov and msg_iovlen are the third and fourth field of the header.
    let buffers = user::read::<[u64; 2]>(frame.argument(1).wrapping_add(16));
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
    if frame.argument(4) != 0 {
        return offload(frame.number(), frame.arguments(), Interrupted::Fails);
    }
    if frame.argument(3) as i32 & MSG_DONTWAIT != 0 {
        return attempt(frame);
    }
    let forone = frame.argument(3) as i32 & MSG_WAITFORONE != 0;
    frame.set_argument(3, frame.argument(3) & !(MSG_WAITFORONE as usize));
    let mut taken = 0;
    many(frame, libc::SYS_recvmsg, |one| {
        if forone && taken > 0 {
            one.set_argument(2, one.argument(2) | MSG_DONTWAIT as usize);
        }
        taken += 1;
        recvmsg(one)
    })
}

fn many(frame: &mut Frame, number: i64, mut call: impl FnMut(&mut Frame) -> isize) -> isize {
    let (list, count) = (frame.argument(1), (frame.argument(2) as u32).min(1024) as usize);
    for index in 0..count {
        let header = list + index * size_of::<libc::mmsghdr>();
        let mut one = frame.with(number, [frame.argument(0), header, frame.argument(3), 0, 0, 0]);
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
    let number = frame.argument(0);
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
    let nothing = shape == Shape::Buffer && frame.argument(2) == 0;
    if nothing && is_socket && direction == Direction::Read {
        return attempt(frame);
    }
    if nothing && !is_socket {
        // Only this very call reports what is wrong with the file.
        return offload(frame.number(), frame.arguments(), Interrupted::Restarts);
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
            if self.is_beyond_poll() {
                return self.make_beyond_poll();
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
                if self.is_beyond_poll() {
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
                    Received::Again => by_ring = false,
                    Received::TimedOut => return self.so_far(EAGAIN),
                    Received::Interrupted => return self.so_far(interruption(deadline)),
                    Received::Result(result) => {
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
            Shape::Socket => {
                self.frame.argument(4) == 0 && self.frame.argument(3) as i32 & !MSG_WAITALL == 0
            }
            Shape::Vector | Shape::Message => false,
        };
        ring::is_active()
            && current().task.get().is_none()
            && plain
            && self.direction == Direction::Read
            && kind == Kind::Stream
            && self.frame.argument(2) != 0
            && self.descriptor.is_known_to_block()
    }

    /// Parks the thread until the kernel has received.
    fn receive(&self, deadline: u64) -> Received {
        let (at, left) = (self.frame.argument(1) + self.done, self.frame.argument(2) - self.done);
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
            && count < self.frame.argument(2) - self.done
            && (self.shape == Shape::Buffer || self.frame.argument(3) as i32 & MSG_PEEK == 0);
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
}

/// How a call with this deadline ends when a signal comes.
fn interruption(deadline: u64) -> isize {
    if deadline == NEVER { RESTART } else { EINTR }
}
