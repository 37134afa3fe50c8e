//! Work in a process of its own, which begins with the memory of this one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

/// Calls `body` in a child process, and returns what it returned there. What it changes in memory,
/// such as static variables, ends with the child.
///
/// The child has the calling kernel thread alone. A lock that another one holds is locked for ever
/// in the child, so `body` must not need such a lock. Those of memory and of new threads are safe.
///
/// # Errors
///
/// If there is no room for a process or a pipe. If the child ends without a result.
pub fn run(body: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
    let (mut reader, mut writer) = pipe()?;
    // SAFETY: the child has a copy of all memory, and this thread alone, which leaves by `_exit`. A
    // lock of another thread stays locked there: the child waits, and touches nothing beneath it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(reader);
            let result = body();
            let is_told = writer.write_all(&result).is_ok();
            // SAFETY: the child ends here. Destructors and exit handlers are the parent's.
            unsafe { libc::_exit(i32::from(!is_told)) }
        }
        child => {
            drop(writer);
            let mut result = Vec::new();
            let read = reader.read_to_end(&mut result);
            let status = wait(child)?;
            read?;
            match status {
                0 => Ok(result),
                _ => {
                    let problem = format!("the process of its own has ended with status {status}");
                    Err(io::Error::other(problem))
                }
            }
        }
    }
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: pipe2(2) has opened both, and nothing else owns them.
    let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    Ok((reader.into(), writer.into()))
}

/// Waits until a child has ended, and returns its status.
fn wait(child: libc::pid_t) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a place for a number. The child is of this process, and waited for
        // once.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    #[test]
    fn statics_begin_anew_in_each_process() {
        static NUMBER: AtomicU8 = AtomicU8::new(7);
        for _ in 0..3 {
            let seen = run(|| vec![NUMBER.fetch_add(1, Ordering::Relaxed); 100_000]).unwrap();
            assert_eq!((seen.len(), seen[0]), (100_000, 7));
        }
    }

    #[test]
    fn a_process_without_a_result_is_an_error() {
        // SAFETY: the child ends.
        let error = run(|| unsafe { libc::_exit(3) }).unwrap_err().to_string();
        assert_eq!(error, "the process of its own has ended with status 768");
    }
}
