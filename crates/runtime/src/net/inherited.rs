//! Listeners that a service manager passes on: sd_listen_fds(3), "socket activation".
//!
//! The manager listens, and starts this program with its sockets as descriptors from 3 on. While
//! one server drains and another begins, both have the same socket, or the manager alone has it.
//! So its accept queue stays, and no connection is refused.

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

/// The listeners that were passed on to this process, if any. Call this once: a second call finds
/// none.
///
/// # Errors
///
/// The error names in one line the descriptor that is not a listening TCP socket.
pub fn inherited_listeners() -> io::Result<Vec<TcpListener>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| env::var(name).ok()?.parse::<i32>().ok();
    let is_meant = number("LISTEN_PID") == Some(getpid().as_raw_pid());
    if !is_meant || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
    (FIRST..FIRST + count).map(inherited).collect()
}

fn inherited(number: i32) -> io::Result<TcpListener> {
    let problem = |error: &str| {
        let problem =
            format!("LISTEN_FDS: descriptor {number}: {error}: pass listening TCP sockets");
        io::Error::new(io::ErrorKind::InvalidInput, problem)
    };
    // SAFETY: it is only looked at, by a call that harms nothing.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(problem("it is not open"));
    }
    // SAFETY: the descriptor is open, and by the protocol of the environment it is this program's
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
