//! Listeners that a service manager passes on: sd_listen_fds(3), "socket activation".
//!
//! The manager listens, and starts this program with its sockets as descriptors from 3 on. While
//! one server drains and another begins, both have the same socket, or the manager alone has it.
//! So its accept queue stays, and no connection is refused.
//!
//! A parent of our own (`duality trial`) cannot set `LISTEN_PID`, which it does not know before the
//! start. It passes one listener on, and names the descriptor on the command line.

use std::env;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::getpid;

use super::TcpListener;

/// The first descriptor (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// More than a manager passes on.
const MOST: i32 = 1024;

/// The listeners that were passed on to this process; none where none were. A parent of our own
/// `named` its descriptor. To be called once: a second call finds none.
///
/// # Errors
///
/// What was passed on and is no listening TCP socket, in one line.
pub fn inherited_listeners(named: Option<i32>) -> io::Result<Vec<TcpListener>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let count = number_of_listen_fds();
    if (named.is_none() && count == 0) || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    match named {
        Some(number) if number >= FIRST => Ok(vec![inherited(number, "--listener")?]),
        Some(number) => {
            let problem = format!("--listener: descriptor {number} is a standard stream");
            Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
        }
        None => (FIRST..FIRST + count).map(|number| inherited(number, "LISTEN_FDS")).collect(),
    }
}

/// How many listeners a service manager has passed on to this process.
#[must_use]
pub fn number_of_listen_fds() -> i32 {
    let number = |name: &str| env::var(name).ok()?.parse::<i32>().ok();
    let is_meant = number("LISTEN_PID") == Some(getpid().as_raw_pid());
    if is_meant { number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST) } else { 0 }
}

/// The listener with that descriptor, which `told` has named.
fn inherited(number: i32, told: &str) -> io::Result<TcpListener> {
    let problem = |error: &str| {
        let problem = format!("{told}: descriptor {number}: {error}: pass listening TCP sockets");
        io::Error::new(io::ErrorKind::InvalidInput, problem)
    };
    // SAFETY: it is only looked at, by a call that harms nothing.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(problem("it is not open"));
    }
    // SAFETY: the descriptor is open, and by what the parent process has told it is this program's
    // from its start. This function is called once for each number, so it has one owner.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    let is_internet = || -> rustix::io::Result<bool> {
        let domain = sockopt::socket_domain(&descriptor)?;
        Ok(matches!(domain, AddressFamily::INET | AddressFamily::INET6)
            && sockopt::socket_type(&descriptor)? == SocketType::STREAM
            && sockopt::socket_acceptconn(&descriptor)?)
    };
    match is_internet() {
        Ok(true) => {}
        Ok(false) => return Err(problem("it does not listen for TCP")),
        Err(error) => return Err(problem(&error.to_string())),
    }
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    sockopt::set_tcp_nodelay(&descriptor, true)?;
    Ok(TcpListener::of_inherited(descriptor))
}
