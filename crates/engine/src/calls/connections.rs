//! Calls on sockets that have no flag against waiting: accept, connect, sendfile.

use crate::calls::transfer::{attempt, done_before};
use crate::descriptors::facts;
use crate::descriptors::registry::{self, Descriptor, Direction, Kind};
use crate::kernel::clock::{NEVER, Nanoseconds};
use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::sys::{self, EAGAIN, EINTR, RESTART, SUSPENDED, error, failed, sys};
use crate::kernel::user;
use crate::schedule::waiter::Reason;
use crate::schedule::worker::current;
use crate::workers::helpers::{Interrupted, offload, offload_on_kept};
use crate::workers::pump::count_call;

/// accept(2) and accept4(2)
pub(crate) fn accept(frame: &mut Frame) -> isize {
    let number = frame.argument(0);
    let Some(descriptor) = registry::get(number) else { return frame.pass() };
    let kind = descriptor.kind(number);
    let waits = matches!(kind, Kind::Stream | Kind::Message) && !descriptor.is_nonblocking(number);
    let result = match (waits, descriptor.has(facts::SHARED)) {
        (false, _) => attempt(frame),
        (true, true) => accept_among_processes(frame, descriptor),
        (true, false) => {
            let try_accept = || {
                let at_once = sys::is_ready(number, libc::POLLIN) || !listens(number);
                if at_once { frame.pass() } else { EAGAIN }
            };
            let call = || descriptor.alone(try_accept);
            let result = wait_for(frame, descriptor, Direction::Read, call);
            descriptor.pass_on(Direction::Read, result);
            result
        }
    };
    if result >= 0 {
        let nonblocking = frame.number() == libc::SYS_accept4
            && frame.argument(3) as i32 & libc::SOCK_NONBLOCK != 0;
        registry::opened(result, kind, nonblocking);
    }
    result
}

/// Other processes may accept from the same socket. An event would wake each of them for one
/// connection, and the connection may be gone before it is accepted. So a helper waits in the
/// kernel, and the kernel wakes one waiter. One thread of a process at a time has a helper, and the
/// other threads stand in line.
fn accept_among_processes(frame: &Frame, descriptor: &'static Descriptor) -> isize {
    let (number, direction) = (frame.argument(0), Direction::Read);
    if !listens(number) {
        return attempt(frame);
    }
    if current().task.get().is_some() {
        // A task stands in no line for a helper: it needs a thread as soon as there is a
        // connection.
        let by_thread = || offload(frame.number(), frame.arguments(), Interrupted::Restarts);
        let look = || if sys::is_ready(number, libc::POLLIN) { by_thread() } else { EAGAIN };
        return wait_for(frame, descriptor, direction, look);
    }
    let deadline = descriptor.socket_deadline(number, direction);
    loop {
        let seen = descriptor.seen(direction);
        if sys::is_ready(number, libc::POLLIN) {
            // There may be more connections for the threads in line.
            descriptor.has_connections();
            return offload(frame.number(), frame.arguments(), Interrupted::Restarts);
        }
        if descriptor.begins_to_accept() {
            let result = offload(frame.number(), frame.arguments(), Interrupted::Restarts);
            descriptor.has_accepted();
            return result;
        }
        let generation = descriptor.generation();
        let reason = descriptor.wait_in_line(&mut lock(), number, direction, deadline, seen);
        if let Some(result) = ended(frame, descriptor, generation, reason, deadline) {
            return result;
        }
    }
}

/// Whether a socket listens. On a socket that does not listen, accept fails at once.
fn listens(number: usize) -> bool {
    let (mut listens, mut length) = (0i32, 4u32);
    let option = libc::SO_ACCEPTCONN;
    sys!(SYS_getsockopt, number, libc::SOL_SOCKET, option, &mut listens, &mut length);
    listens != 0
}

/// Tries the call until it does not block. Parks between two attempts.
fn wait_for(
    frame: &Frame,
    descriptor: &'static Descriptor,
    direction: Direction,
    call: impl Fn() -> isize,
) -> isize {
    let number = frame.argument(0);
    let deadline = descriptor.socket_deadline(number, direction);
    let mut over = None;
    loop {
        let seen = descriptor.seen(direction);
        let result = call();
        if result != EAGAIN {
            count_call();
            return result;
        }
        if let Some(ending) = over {
            return ending;
        }
        let generation = descriptor.generation();
        let reason = descriptor.wait(&mut lock(), number, direction, deadline, seen);
        let Some(reason) = reason else {
            return offload(frame.number(), frame.arguments(), Interrupted::Restarts);
        };
        let same_file = descriptor.generation() == generation;
        over = ended(frame, descriptor, generation, reason, deadline);
        // As in the kernel, what comes together with a signal or the deadline counts.
        let last = same_file && matches!(reason, Reason::TimedOut | Reason::Interrupted);
        if let Some(result) = over.filter(|_| !last) {
            return result;
        }
    }
}

/// The result that ends a call after a wait with this `reason`, if the call ends.
fn ended(
    frame: &Frame,
    descriptor: &Descriptor,
    generation: u32,
    reason: Reason,
    deadline: Nanoseconds,
) -> Option<isize> {
    match reason {
        Reason::Suspended => Some(SUSPENDED),
        _ if descriptor.generation() != generation => {
            offload_on_kept(frame.number(), frame.arguments(), Interrupted::Restarts)
        }
        Reason::Woken => None,
        Reason::TimedOut => Some(EAGAIN),
        Reason::Interrupted if deadline != NEVER => Some(EINTR),
        Reason::Interrupted => Some(RESTART),
    }
}

/// Makes a call that has no flag against blocking, with `O_NONBLOCK` set while the call lasts.
/// Meanwhile, other calls that read or change `O_NONBLOCK` wait.
fn with_nonblocking(descriptor: &Descriptor, number: usize, call: impl FnOnce() -> isize) -> isize {
    descriptor.alone(|| with_flag(number, call))
}

fn with_flag(number: usize, call: impl FnOnce() -> isize) -> isize {
    let flags = sys!(SYS_fcntl, number, libc::F_GETFL);
    if failed(flags) {
        return flags;
    }
    sys!(SYS_fcntl, number, libc::F_SETFL, flags | libc::O_NONBLOCK as isize);
    let result = call();
    sys!(SYS_fcntl, number, libc::F_SETFL, flags);
    result
}

/// connect(2)
pub(crate) fn connect(frame: &mut Frame) -> isize {
    let number = frame.argument(0);
    let Some(descriptor) = registry::get(number) else { return frame.pass() };
    if descriptor.kind(number) != Kind::Stream || descriptor.is_nonblocking(number) {
        return frame.pass();
    }
    let family = user::read::<u16>(frame.argument(1)).unwrap_or(0);
    if i32::from(family) == libc::AF_UNIX || descriptor.has(facts::SHARED) {
        return connect_local(frame, descriptor);
    }
    let result = with_nonblocking(descriptor, number, || frame.pass());
    if result != error(libc::EINPROGRESS) && result != error(libc::EALREADY) {
        return result;
    }
    // Until connect(2) is called again, the kernel treats the connection as still being made.
    let again = || with_nonblocking(descriptor, number, || frame.pass());
    let made = || if sys::is_ready(number, libc::POLLOUT) { again() } else { EAGAIN };
    match wait_for(frame, descriptor, Direction::Write, made) {
        EAGAIN => error(libc::EINPROGRESS),
        other => other,
    }
}

/// A local socket's connect waits only for room in the backlog.
fn connect_local(frame: &Frame, descriptor: &Descriptor) -> isize {
    if !descriptor.has(facts::SHARED) {
        let result = with_nonblocking(descriptor, frame.argument(0), || frame.pass());
        if result != EAGAIN {
            return result;
        }
    }
    offload(frame.number(), frame.arguments(), Interrupted::Restarts)
}

/// sendfile(2): the socket's side may block.
pub(crate) fn sendfile(frame: &mut Frame) -> isize {
    let number = frame.argument(0);
    let Some(descriptor) = registry::get(number) else { return frame.pass() };
    if descriptor.kind(number) == Kind::Direct || descriptor.is_nonblocking(number) {
        return attempt(frame);
    }
    if descriptor.has(facts::SHARED) || descriptor.kind(number) != Kind::Stream {
        return offload(frame.number(), frame.arguments(), Interrupted::Restarts);
    }
    let mut done = done_before();
    loop {
        let rest = frame.with(
            frame.number(),
            [
                frame.argument(0),
                frame.argument(1),
                frame.argument(2),
                frame.argument(3) - done,
                0,
                0,
            ],
        );
        let call = || with_nonblocking(descriptor, number, || rest.pass());
        let result = wait_for(&rest, descriptor, Direction::Write, call);
        if result == SUSPENDED {
            if let Some(task) = current().task.get() {
                task.done.set(done);
            }
            return SUSPENDED;
        }
        if result <= 0 {
            return if done > 0 { done as isize } else { result };
        }
        done += result as usize;
        if done >= frame.argument(3) {
            return done as isize;
        }
    }
}
