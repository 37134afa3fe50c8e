//! One attempt of a call that transfers bytes, by the kind of file: the attempt does not block.

use libc::{MSG_DONTWAIT, MSG_WAITALL};

use crate::calls::transfer::{Shape, Transfer, attempt};
use crate::descriptors::registry::{Direction, Kind};
use crate::kernel::plain::zeroed;
use crate::kernel::sys::{self, EAGAIN, EINVAL, error, failed, sys};
use crate::kernel::user;

/// A file that does not take `RWF_NOWAIT`.
const NOT_SUPPORTED: isize = error(libc::EOPNOTSUPP);

impl Transfer<'_> {
    /// One attempt that does not block.
    pub(super) fn attempt(&self, kind: Kind) -> isize {
        let frame = self.frame;
        let (number, done) = (self.number, self.done);
        match (kind, self.shape, self.direction) {
            (Kind::Stream | Kind::Message, Shape::Buffer, Direction::Read) => {
                sys!(SYS_recvfrom, number, frame.argument(1), frame.argument(2), MSG_DONTWAIT, 0, 0)
            }
            (Kind::Stream | Kind::Message, Shape::Buffer, Direction::Write) => {
                let (at, left) = (frame.argument(1) + done, frame.argument(2) - done);
                sys!(SYS_sendto, number, at, left, MSG_DONTWAIT, 0, 0)
            }
            (Kind::Stream | Kind::Message, Shape::Socket, _) => {
                let (at, left) = (frame.argument(1) + done, frame.argument(2) - done);
                let flags = (frame.argument(3) as i32 | MSG_DONTWAIT) & !MSG_WAITALL;
                self.as_asked([
                    number,
                    at,
                    left,
                    flags as usize,
                    frame.argument(4),
                    frame.argument(5),
                ])
            }
            (Kind::Stream | Kind::Message, Shape::Message, _) if done == 0 => {
                let flags = frame.argument(2) as i32 | MSG_DONTWAIT;
                self.as_asked([number, frame.argument(1), flags as usize, 0, 0, 0])
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
                if self.is_beyond_poll() { EAGAIN } else { self.attempt_when_ready() }
            }
            (Direction::Write, NOT_SUPPORTED | EINVAL) => {
                self.descriptor.set_kind(Kind::PolledReads);
                EAGAIN
            }
            _ => result,
        }
    }

    /// Whether poll(2) does not say that the call would wait. It says at most that a file takes
    /// some bytes: a terminal, a FIFO that was opened by name, an event counter. Many files never
    /// report that they can be written: `/dev/kmsg`, the permissions of fanotify(7). Some terminals
    /// end a read without bytes.
    pub(super) fn is_beyond_poll(&self) -> bool {
        match (self.direction, self.descriptor.kind(self.number)) {
            (Direction::Write, Kind::Polled | Kind::PolledReads) => true,
            (Direction::Read, Kind::Polled) => ends_reads_by_time(self.number),
            _ => false,
        }
    }

    /// Makes such a call. An event counter that is ready takes a one.
    pub(super) fn make_beyond_poll(&self) -> isize {
        match self.descriptor.mode(self.number) {
            Err(error) => return self.so_far(error),
            Ok(true) => return attempt(self.frame),
            Ok(false) => {}
        }
        let adds_one = (self.shape, self.direction) == (Shape::Buffer, Direction::Write)
            && self.frame.argument(2) == size_of::<u64>()
            && user::read::<u64>(self.frame.argument(1)) == Ok(1);
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
                let (at, left) =
                    (self.frame.argument(1) + self.done, self.frame.argument(2) - self.done);
                let rest = one(at, left);
                return call(&raw const rest as usize, 1);
            }
            Shape::Vector => (self.frame.argument(1), self.frame.argument(2)),
            Shape::Message => match user::read::<[u64; 2]>(self.frame.argument(1) + 16) {
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

/// Whether a terminal is set to end reads after a time, or without bytes (termios(3)).
fn ends_reads_by_time(number: usize) -> bool {
    // The kernel's `struct termios`, which is shorter than libc's.
    let mut settings: libc::termios = zeroed();
    !failed(sys!(SYS_ioctl, number, libc::TCGETS, &mut settings))
        && settings.c_lflag & libc::ICANON == 0
        && (settings.c_cc[libc::VMIN] == 0 || settings.c_cc[libc::VTIME] != 0)
}
