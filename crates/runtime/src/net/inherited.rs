//! Listeners from a service manager: sd_listen_fds(3), "socket activation".
//!
//! The manager listens, and starts this program with its sockets as descriptors from 3 on. While
//! one server drains and another begins, both have the same socket, or the manager alone has it.
//! So its accept queue stays, and no connection is refused.
//!
//! A parent of our own (`duality trial`) cannot set `LISTEN_PID`, because it does not know the
//! number before the start. This parent passes one listener on, and names the descriptor on the
//! command line.

use std::env;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::getpid;

use super::TcpListener;

/// The number of the first descriptor (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// More listeners than any manager passes on.
const MOST: i32 = 1024;

/// The listeners that were passed on to this process. Empty without such listeners. A parent of our
/// own gives the number of its descriptor as `named`. Call this once: a second call finds none.
///
/// # Errors
///
/// A descriptor that is not a listening TCP socket. The error is one line.
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

/// The number of listeners that a service manager has passed on to this process.
#[must_use]
pub fn number_of_listen_fds() -> i32 {
    let number = |name: &str| env::var(name).ok()?.parse::<i32>().ok();
    let is_meant = number("LISTEN_PID") == Some(getpid().as_raw_pid());
    if is_meant { number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST) } else { 0 }
}

/// The listener with this descriptor. `told` is the source of the number.
fn inherited(number: i32, source: &str) -> io::Result<TcpListener> {
    let problem = |error: &str| {
        let problem = format!("{source}: descriptor {number}: {error}: pass listening TCP sockets");
        io::Error::new(io::ErrorKind::InvalidInput, problem)
    };
    // SAFETY: the call only inspects the descriptor, and changes nothing.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(problem("it is not open"));
    }
    // SAFETY: the descriptor is open, and the parent process says that it has been this program's
    // from the start. This function is called once for each number, so the descriptor has one
    // owner.
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
