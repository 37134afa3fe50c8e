//! Calls that open, copy and close descriptors. The engine keeps its record of descriptors up to
//! date.

use alloc::vec::Vec;

use crate::calls::attempts;
use crate::calls::task_folder;
use crate::descriptors::closed;
use crate::descriptors::engine_files;
use crate::descriptors::facts;
use crate::descriptors::registry::{self, Descriptor, Kind};
use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::plain::zeroed;
use crate::kernel::sys::{self, EAGAIN, EBADF, EINVAL, failed, sys};
use crate::kernel::user;
use crate::schedule::poll_node::PollNode;
use crate::schedule::thread::{self, MAIN, is_ours};
use crate::schedule::worker::current;
use crate::workers::helpers::{self, Interrupted, offload, offload_until};
use crate::workers::in_place;

/// socket(2)
pub(crate) fn socket(frame: &mut Frame) -> isize {
    let result = frame.pass();
    if !failed(result) {
        registry::opened(result, kind_of(frame), is_nonblocking(frame));
    }
    result
}

/// socketpair(2)
pub(crate) fn socketpair(frame: &mut Frame) -> isize {
    let result = frame.pass();
    if result == 0
        && let Ok(pair) = user::read::<[i32; 2]>(frame.argument(3))
    {
        for number in pair {
            registry::opened(number as isize, kind_of(frame), is_nonblocking(frame));
        }
    }
    result
}

fn kind_of(frame: &Frame) -> Kind {
    if frame.argument(1) as i32 & 0xf == libc::SOCK_STREAM { Kind::Stream } else { Kind::Message }
}

fn is_nonblocking(frame: &Frame) -> bool {
    frame.argument(1) as i32 & libc::SOCK_NONBLOCK != 0
}

/// pipe(2) and pipe2(2)
pub(crate) fn pipe(frame: &mut Frame) -> isize {
    let result = frame.pass();
    if result == 0
        && let Ok(pair) = user::read::<[i32; 2]>(frame.argument(0))
    {
        let flags = if frame.number() == libc::SYS_pipe2 { frame.argument(1) as i32 } else { 0 };
        for number in pair {
            registry::opened(number as isize, Kind::Pipe, flags & libc::O_NONBLOCK != 0);
        }
    }
    result
}

/// Calls that return a new descriptor of some kind.
pub(crate) fn opens(frame: &mut Frame) -> isize {
    let result = frame.pass();
    if !failed(result) {
        registry::renewed(result);
    }
    result
}

/// open(2), openat(2), creat(2). Opening a FIFO waits for the other end, and `/proc` does not list
/// our threads.
pub(crate) fn open(frame: &mut Frame) -> isize {
    // The arguments that are the path, and the flags.
    let (path_at, flags_at) = if frame.number() == libc::SYS_openat { (1, 2) } else { (0, 1) };
    let flags = frame.argument(flags_at) as i32;
    let mut buffer = [0; 64];
    let path = user::read_text(frame.argument(path_at), &mut buffer).unwrap_or(b"");
    if let Some((id, rest)) = task_path(path) {
        return open_task(id, rest, flags);
    }
    if task_folder::is_own_stat(path) && !current().is(&MAIN) {
        return task_folder::open_stat_of_process();
    }
    let result = open_any(frame, flags_at);
    if !failed(result) {
        registry::renewed(result);
        task_folder::opened(path, result);
    }
    result
}

/// The thread and the file of a path beneath `/proc/self/task`, if the thread is ours.
fn task_path(path: &[u8]) -> Option<(i32, &[u8])> {
    let rest = path.strip_prefix(b"/proc/self/task/").or_else(|| {
        let rest = path.strip_prefix(b"/proc/")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let process: i32 = core::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        if process as isize != sys!(SYS_getpid) {
            return None;
        }
        rest[digits..].strip_prefix(b"/task/")
    })?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let id: i32 = core::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    is_ours(i64::from(id)).then_some((id, &rest[digits..]))
}

/// The engine knows a thread's name. All other files are those of the main thread.
fn open_task(id: i32, file: &[u8], flags: i32) -> isize {
    let mut locked = lock();
    let Some(thread) = thread::find(&mut locked, id) else { return sys::error(libc::ENOENT) };
    let name = thread.name.get(locked.held());
    drop(locked);
    if file == b"/comm" && flags & libc::O_ACCMODE != libc::O_RDONLY {
        return open_name(thread.id.get());
    }
    if file == b"/comm" {
        let made = sys!(SYS_memfd_create, c"comm", libc::MFD_CLOEXEC);
        if !failed(made) {
            let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            sys!(SYS_write, made, &name, length);
            sys!(SYS_write, made, b"\n", 1);
            sys!(SYS_lseek, made, 0, libc::SEEK_SET);
            registry::renewed(made);
        }
        return made;
    }
    if file == b"/stat" {
        return task_folder::open_stat(thread);
    }
    let mut path = [0u8; 96];
    let prefix = b"/proc/thread-self";
    path[..prefix.len()].copy_from_slice(prefix);
    let length = file.len().min(path.len() - prefix.len() - 1);
    path[prefix.len()..prefix.len() + length].copy_from_slice(&file[..length]);
    let opened = sys!(SYS_openat, libc::AT_FDCWD, &path, flags);
    if !failed(opened) {
        registry::renewed(opened);
    }
    opened
}

/// A descriptor to which libc writes the name of another thread.
fn open_name(id: i32) -> isize {
    let flags = libc::O_WRONLY | libc::O_CLOEXEC;
    let made = sys!(SYS_openat, libc::AT_FDCWD, c"/dev/null", flags);
    if !failed(made) {
        registry::opened(made, Kind::Name, false);
        if let Some(descriptor) = registry::get(made as usize) {
            descriptor.named.set(id);
        }
    }
    made
}

/// A write to a descriptor that names a thread.
pub(crate) fn write_name(frame: &Frame, descriptor: &Descriptor) -> isize {
    let mut name = [0; 16];
    let length = frame.argument(2).min(15);
    if let Err(fault) = user::read_slice(frame.argument(1), &mut name[..length]) {
        return fault;
    }
    let mut locked = lock();
    match thread::find(&mut locked, descriptor.named.get()) {
        Some(thread) => {
            thread.name.set(locked.held(), name);
            frame.argument(2) as isize
        }
        None => sys::ESRCH,
    }
}

/// Opens a file of any kind without waiting. A helper waits for the other end of a FIFO.
fn open_any(frame: &Frame, flags_at: usize) -> isize {
    let flags = frame.argument(flags_at) as i32;
    if in_place::suits(frame.number()) {
        return in_place::call(frame.number(), frame.arguments());
    }
    let waits = flags & (libc::O_NONBLOCK | libc::O_PATH | libc::O_DIRECTORY) == 0
        && matches!(flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_WRONLY);
    let by_helper = || offload(frame.number(), frame.arguments(), Interrupted::Restarts);
    if !waits || frame.number() == libc::SYS_creat {
        return frame.pass();
    }
    let mut at_once = *frame;
    at_once.set_argument(flags_at, (flags | libc::O_NONBLOCK) as usize);
    let opened = at_once.pass();
    if opened == sys::error(libc::ENXIO) || opened == sys::EAGAIN {
        // The writing end of a FIFO without a reader, or a file with a lease.
        return by_helper();
    }
    if failed(opened) {
        return opened;
    }
    let mut status: libc::stat = zeroed();
    sys!(SYS_fstat, opened, &mut status);
    if status.st_mode & libc::S_IFMT == libc::S_IFIFO {
        let reads = flags & libc::O_ACCMODE == libc::O_RDONLY;
        let result = if reads { wait_for_writer(opened as usize) } else { opened };
        if failed(result) {
            registry::renewed(opened);
            sys!(SYS_close, opened);
            return result;
        }
    }
    sys!(SYS_fcntl, opened, libc::F_SETFL, flags & !libc::O_NONBLOCK);
    opened
}

/// Has a helper open the reading end of a FIFO once more, which waits for a writer. The helper
/// finds the file by the end that is already open, since the path may vanish once the writer has
/// come. The open end also notices a writer that has come and gone.
fn wait_for_writer(opened: usize) -> isize {
    let mut path = [0u8; 32];
    let prefix = b"/proc/self/fd/";
    path[..prefix.len()].copy_from_slice(prefix);
    let mut digits = [0; 12];
    let digits = task_folder::decimal(opened as i32, &mut digits);
    path[prefix.len()..prefix.len() + digits.len()].copy_from_slice(digits);
    let gone = || sys::is_ready(opened, libc::POLLIN).then_some(opened as isize);
    registry::opened(opened as isize, Kind::Pipe, true);
    let Some(descriptor) = registry::get(opened) else { return opened as isize };
    let _a_helper_tells_otherwise = descriptor.register(opened);
    let node = PollNode::new(current(), libc::POLLIN, &descriptor.polls);
    node.link(&mut lock());
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0];
    let result = offload_until(libc::SYS_openat, arguments, Interrupted::Restarts, gone);
    closed::end_wait(&mut lock(), core::slice::from_ref(&node));
    if failed(result) {
        // If a signal and a writer come together, the writer counts, as in the kernel.
        return if has_writer(opened) { opened as isize } else { result };
    }
    if result as usize != opened {
        sys!(SYS_close, result);
    }
    opened as isize
}

/// Whether the reading end of a FIFO has a writer. The check consumes no data.
fn has_writer(reader: usize) -> bool {
    let mut scratch = [0i32; 2];
    if failed(sys!(SYS_pipe2, &mut scratch, libc::O_CLOEXEC)) {
        return false;
    }
    let copied = sys!(SYS_tee, reader, scratch[1], 1, libc::SPLICE_F_NONBLOCK);
    scratch.iter().for_each(|&end| {
        sys!(SYS_close, end);
    });
    // If there is nothing to copy, a FIFO without a writer is at its end. With a writer, the call
    // would wait.
    copied == EAGAIN || copied > 0
}

/// close(2)
pub(crate) fn close(frame: &mut Frame) -> isize {
    if registry::is_ours(frame.argument(0)) {
        return EBADF;
    }
    closed::for_waiters(frame.argument(0) as i32 as usize);
    registry::renewed(frame.argument(0) as i32 as isize);
    let result = frame.pass();
    registry::gone(frame.argument(0) as i32 as usize);
    result
}

/// close_range(2), around the engine's own descriptors.
pub(crate) fn close_range(frame: &mut Frame) -> isize {
    let (first, last) = (frame.argument(0) as u32 as usize, frame.argument(1) as u32 as usize);
    if first > last {
        return EINVAL;
    }
    let closes = frame.argument(2) as u32 & libc::CLOSE_RANGE_CLOEXEC == 0;
    let mut ours = if closes { closing_range(first, last) } else { closed::numbers() };
    ours.extend(engine_files::protected().map(|number| number as usize));
    ours.sort_unstable();
    let mut from = first;
    let mut result = 0;
    for &own in &ours {
        if (from..=last).contains(&own) {
            if own > from {
                result = sys!(SYS_close_range, from, own - 1, frame.argument(2));
            }
            from = own + 1;
        }
    }
    if from <= last {
        result = sys!(SYS_close_range, from, last, frame.argument(2));
    }
    if closes {
        let end = last.min(registry::highest());
        (first..=end).filter(|number| !ours.contains(number)).for_each(registry::gone);
    }
    if frame.argument(2) as u32 & libc::CLOSE_RANGE_UNSHARE != 0 {
        helpers::retire();
    }
    result
}

/// dup(2), dup2(2), dup3(2)
pub(crate) fn dup(frame: &mut Frame) -> isize {
    if frame.number() == libc::SYS_dup {
        let result = frame.pass();
        if !failed(result) {
            registry::duplicated(frame.argument(0), result);
        }
        return result;
    }
    if registry::is_ours(frame.argument(1)) {
        return EBADF;
    }
    if frame.argument(0) as i32 == frame.argument(1) as i32 {
        return frame.pass();
    }
    // If the call fails, the waiters for the number go on with the same file.
    closed::for_waiters(frame.argument(1) as i32 as usize);
    registry::renewed(frame.argument(1) as i32 as isize);
    let result = frame.pass();
    if !failed(result) {
        registry::replaced(frame.argument(0), result);
    }
    result
}

/// fcntl(2)
pub(crate) fn fcntl(frame: &mut Frame) -> isize {
    let command = frame.argument(1) as i32;
    if matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW) {
        return attempts::lock_file(frame);
    }
    let flags = matches!(command, libc::F_GETFL | libc::F_SETFL);
    let result = match registry::get(frame.argument(0)) {
        Some(descriptor) if flags => descriptor.alone(|| frame.pass()),
        _ => frame.pass(),
    };
    if failed(result) {
        return result;
    }
    match command {
        libc::F_SETFL => {
            if let Some(descriptor) = registry::get(frame.argument(0)) {
                descriptor.kind(frame.argument(0));
                descriptor.set_mode(frame.argument(2) as i32 & libc::O_NONBLOCK != 0);
            }
        }
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => registry::duplicated(frame.argument(0), result),
        _ => {}
    }
    result
}

/// setsockopt(2): the socket may have other timeouts now.
pub(crate) fn setsockopt(frame: &mut Frame) -> isize {
    let result = frame.pass();
    let timeout = matches!(frame.argument(2) as i32, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO);
    if frame.argument(1) as i32 == libc::SOL_SOCKET
        && timeout
        && let Some(descriptor) = registry::get(frame.argument(0))
    {
        descriptor.clear(facts::TIMEOUTS_KNOWN);
    }
    result
}

/// Forgets all descriptors from `first` to `last`, and returns those that are kept.
fn closing_range(first: usize, last: usize) -> Vec<usize> {
    let mut kept = closed::numbers();
    for number in first..=last.min(registry::highest()) {
        if !kept.contains(&number) {
            if closed::for_waiters(number) {
                kept = closed::numbers();
            }
            registry::renewed(number as isize);
        }
    }
    kept
}

/// flock(2)
pub(crate) fn flock(frame: &mut Frame) -> isize {
    if frame.argument(1) as i32 & libc::LOCK_NB != 0 {
        return frame.pass();
    }
    let now = frame.with(
        frame.number(),
        [frame.argument(0), frame.argument(1) | libc::LOCK_NB as usize, 0, 0, 0, 0],
    );
    match now.pass() {
        EAGAIN => offload(frame.number(), frame.arguments(), Interrupted::Restarts),
        result => result,
    }
}
