//! Sockets, and the helpers of the tests of pollers.

use std::io;
use std::os::fd::OwnedFd;

use duality_poller::{Direction, Event, Token};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// The result of [`read_once`] at the end of the stream.
pub(crate) const END: Option<usize> = Some(0);

/// Two connected stream sockets, both non-blocking.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Reads up to `size` bytes; `None` if the read would block.
pub(crate) fn read_once(socket: &OwnedFd, size: usize) -> io::Result<Option<usize>> {
    match rustix::io::read(socket, &mut vec![0; size][..]) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes until a write would block, and returns how many bytes it wrote.
pub(crate) fn fill(socket: &OwnedFd) -> io::Result<usize> {
    let mut total = 0;
    loop {
        match rustix::io::write(socket, &[0; 16 * 1024]) {
            Ok(count) => total += count,
            Err(Errno::AGAIN) => return Ok(total),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The report of this token and direction among the events.
pub(crate) fn report(events: &[Event], token: Token, direction: Direction) -> Option<Event> {
    let tells = |event: &&Event| match direction {
        Direction::Read => event.readable,
        Direction::Write => event.writable,
    };
    events.iter().filter(|event| event.token == token).find(tells).copied()
}
