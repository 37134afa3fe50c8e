//! `/proc/self/task`, as the program would see it natively: the kernel does not know our threads.

use core::ffi::CStr;

use crate::descriptors::facts;
use crate::descriptors::registry;
use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::sys::{EINVAL, failed, sys};
use crate::kernel::user;
use crate::schedule::thread::{self, MAIN, ThreadRef};
use crate::schedule::waiter::State;

/// The threads below the folder's own two entries.
const FIRST_PLACE: usize = 2;

/// Takes note of a newly opened folder, if the folder lists our threads.
pub(crate) fn opened(path: &[u8], number: isize) {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let process = path.strip_prefix(b"/proc/").and_then(|rest| rest.strip_suffix(b"/task"));
    let ours = process.is_some_and(is_own);
    if ours && let Some(descriptor) = registry::get(number as usize) {
        descriptor.kind(number as usize);
        descriptor.set(facts::LISTS_THREADS);
    }
}

/// Whether the name of a folder of `/proc` means this process.
fn is_own(name: &[u8]) -> bool {
    let number = core::str::from_utf8(name).ok().and_then(|text| text.parse().ok());
    name == b"self" || number == Some(sys!(SYS_getpid))
}

/// getdents64(2)
pub(crate) fn getdents64(frame: &mut Frame) -> isize {
    let lists = registry::get(frame.argument(0))
        .is_some_and(|descriptor| descriptor.has(facts::LISTS_THREADS));
    if lists { list(frame.argument(0), frame.argument(1), frame.argument(2)) } else { frame.pass() }
}

/// Writes the entries from the folder's position on; the position counts entries.
fn list(number: usize, buffer: usize, room: usize) -> isize {
    /// Before the name: an inode number, the next position, the entry's length and type.
    const HEADER: usize = 19;
    let position = sys!(SYS_lseek, number, 0, libc::SEEK_CUR);
    if failed(position) {
        return position;
    }
    let mut locked = lock();
    let threads = thread::all(&mut locked);
    let mut place = position as usize;
    let mut written = 0;
    let ids = threads.map(|thread| thread.id.get()).skip(place.saturating_sub(FIRST_PLACE));
    let folders = [&b"."[..], b".."].into_iter().skip(place);
    let mut digits = [0; 12];
    let mut put = |name: &[u8]| -> Result<bool, isize> {
        let length = (HEADER + name.len() + 1).next_multiple_of(8);
        if written + length > room {
            return Ok(false);
        }
        let mut entry = [0u8; 40];
        entry[..8].copy_from_slice(&(place as u64 + 1).to_ne_bytes());
        entry[8..16].copy_from_slice(&(place as u64 + 1).to_ne_bytes());
        entry[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        entry[18] = libc::DT_DIR;
        entry[HEADER..HEADER + name.len()].copy_from_slice(name);
        user::write_slice(buffer + written, &entry[..length])?;
        written += length;
        place += 1;
        Ok(true)
    };
    let put_all = || -> Result<(), isize> {
        for name in folders {
            if !put(name)? {
                return Ok(());
            }
        }
        for id in ids {
            if !put(decimal(id, &mut digits))? {
                return Ok(());
            }
        }
        Ok(())
    };
    if let Err(fault) = put_all() {
        return fault;
    }
    sys!(SYS_lseek, number, place, libc::SEEK_SET);
    written as isize
}

/// The digits of a number that is not negative.
pub(crate) fn decimal(mut number: i32, room: &mut [u8; 12]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[at..];
        }
    }
}

/// A thread's `stat` file: the kernel thread's, with the thread's own number, name and state.
pub(crate) fn open_stat(thread: ThreadRef) -> isize {
    let mut text = [0u8; 1024];
    let (text, state_at) = match read_stat(c"/proc/thread-self/stat", &mut text) {
        Ok(read) => read,
        Err(error) => return error,
    };
    let locked = lock();
    let (name, state) = (thread.name.get(locked.held()), thread.state.get(locked.held()));
    drop(locked);
    let name = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())];
    let mut digits = [0; 12];
    let id = decimal(thread.id.get(), &mut digits);
    file_of(&[id, b" (", name, b") ", &[letter(state)], &text[state_at + 1..]])
}

/// Whether this path names the `stat` file of the process.
pub(crate) fn is_own_stat(path: &[u8]) -> bool {
    let process = path.strip_prefix(b"/proc/").and_then(|rest| rest.strip_suffix(b"/stat"));
    process.is_some_and(is_own)
}

/// The `stat` file of the process, with the state of the main thread. The kernel thread with the
/// number of the process may run another thread.
pub(crate) fn open_stat_of_process() -> isize {
    let mut text = [0u8; 1024];
    let (text, state_at) = match read_stat(c"/proc/self/stat", &mut text) {
        Ok(read) => read,
        Err(error) => return error,
    };
    let state = MAIN.state.get(lock().held());
    file_of(&[&text[..state_at], &[letter(state)], &text[state_at + 1..]])
}

/// Reads a `stat` file. Returns the text, and where the state stands in it.
fn read_stat<'a>(path: &CStr, room: &'a mut [u8; 1024]) -> Result<(&'a [u8], usize), isize> {
    let opened = sys!(SYS_openat, libc::AT_FDCWD, path, libc::O_RDONLY);
    if failed(opened) {
        return Err(opened);
    }
    let length = sys!(SYS_read, opened, &mut *room, room.len()).max(0) as usize;
    sys!(SYS_close, opened);
    let text = &room[..length];
    // The name may contain anything, so the last bracket ends it; a blank and the state follow.
    let name_end = text.iter().rposition(|&byte| byte == b')');
    let state_at = name_end.map(|at| at + 2).filter(|&at| at < length).ok_or(EINVAL)?;
    Ok((text, state_at))
}

/// The state, as `stat` has it.
fn letter(state: State) -> u8 {
    match state {
        State::Parked => b'S',
        State::Dead => b'X',
        State::Ready | State::Running => b'R',
    }
}

/// A descriptor from which these bytes can be read.
fn file_of(parts: &[&[u8]]) -> isize {
    let made = sys!(SYS_memfd_create, c"task", libc::MFD_CLOEXEC);
    if !failed(made) {
        for part in parts {
            sys!(SYS_write, made, *part, part.len());
        }
        sys!(SYS_lseek, made, 0, libc::SEEK_SET);
        registry::renewed(made);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_digits() {
        let mut room = [0; 12];
        assert_eq!(decimal(0, &mut room), b"0");
        assert_eq!(decimal(i32::MAX, &mut room), b"2147483647");
    }
}
