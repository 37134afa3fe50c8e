//! A socket during an attempt, which makes the system call. On a loop with a ring, the attempt
//! takes from the ring's queues and adds to them. The interface is the same.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use duality_poller::{Ring, Token};
use rustix::event::{Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, accept_with, recv, send,
    sendmsg, shutdown,
};

use super::channel::Channel;
use super::rest::Rest;
use crate::drain::{self, FIRST_BYTES};
use crate::event_loop::core::Core;
use crate::net::injection::Injections;
use crate::tcp_info::tcp_info;
use crate::visibility;

/// The number of bytes that an attempt moved.
pub(crate) struct Moved<T> {
    pub(crate) value: T,
    /// The attempt moved fewer bytes than it could have, so another attempt would block.
    pub(crate) short: bool,
}

/// On a loop with a ring, a system call sends this many bytes or more. To copy them for the ring
/// would cost more than the call.
const LONG: usize = 16 * 1024;

/// A socket during an attempt.
#[derive(Clone, Copy)]
pub(crate) struct Access<'s> {
    pub(super) descriptor: BorrowedFd<'s>,
    pub(super) ring: Option<(&'s Core, Token)>,
    /// Another handle, maybe of another loop, may send on the same connection next. A ring's later
    /// sends would come after that.
    pub(super) sends_at_once: bool,
    /// Whether a loop with a ring makes system calls for it, too. A listener leaves connections in
    /// the kernel's accept queue then.
    pub(super) by_system_calls: bool,
    pub(super) channel: Option<&'s dyn Channel>,
    /// Whether the process drains, so that only bytes that have already come are received.
    pub(super) drains: bool,
    /// Whether the end of the input may be a drain's, while the first bytes are on their way.
    pub(super) may_begin: bool,
    /// Whether the attempt must not wait, although the descriptor is in blocking mode: something
    /// else ends the wait.
    pub(super) at_once: bool,
    /// Whether an attempt that would block waits in place. On a network the kernel knows; the
    /// channel of a simulated thread asks.
    pub(in crate::net) waits: bool,
}

impl Access<'_> {
    /// Whether the first bytes may still come, though the input has ended: the process drains.
    pub(in crate::net) fn awaits_first_bytes(&self) -> bool {
        self.may_begin && drain::requested()
    }

    /// Receives bytes.
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Moved<usize>> {
        let bytes = std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>];
        // SAFETY: bytes are bytes that may be uninitialised, of the same layout. `receive_into`
        // only writes initialised bytes.
        self.receive_into(unsafe { &mut *bytes })
    }

    /// Receives bytes into memory that need not be initialised. The first bytes are initialised
    /// afterwards, as many as the result says.
    #[inline]
    pub(crate) fn receive_into(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Moved<usize>> {
        if let Some(channel) = self.channel {
            return channel.receive(&self.network(), buffer);
        }
        let Some((core, token)) = self.ring else {
            let room = buffer.len();
            let flags = if self.at_once { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
            let (_, mut count) = recv(self.descriptor, &mut *buffer, flags)?;
            if count == 0 && self.awaits_first_bytes() {
                count = first_bytes(self.descriptor, buffer)?;
            }
            count_read(count);
            // The end of input does not count as fewer bytes: the next attempt finds it again.
            return Ok(Moved { value: count, short: count != 0 && count < room });
        };
        let count = core.with_ring(|ring| {
            if self.drains {
                return ring.receive_rest(self.descriptor, token, buffer);
            }
            // SAFETY: a `Socket` closes its descriptor through the loop that watches it, which
            // tells the ring.
            unsafe { ring.receive(self.descriptor, token, buffer) }
        })?;
        count_read(count);
        Ok(Moved::all(count))
    }

    /// Whether nothing has come that has not been received: no bytes, no end and no error. A ring
    /// knows what had come at the last round of its loop.
    pub(crate) fn is_quiet(&self) -> bool {
        let by_ring = |(core, token): (&Core, Token)| core.with_ring(|ring| ring.has_input(token));
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        visibility::count(|counters| counters.other_calls.add(1));
        !self.ring.is_some_and(by_ring)
            && matches!(recv(self.descriptor, &mut [0; 1], flags), Err(Errno::WOULDBLOCK))
    }

    /// Sends some of `bytes`.
    #[inline]
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<Moved<usize>> {
        match self.ring {
            _ if self.channel.is_some() => self.send_by_channel(&[IoSlice::new(bytes)]),
            Some(ring) if !self.sends_at_once && bytes.len() < LONG => {
                self.send_by_ring(ring, &[IoSlice::new(bytes)])
            }
            _ => self.send_by_call(bytes, SendFlags::empty()),
        }
    }

    /// Sends some of `bytes`. If these are all bytes, also ends our side. `MSG_MORE` holds the
    /// bytes for the shutdown(2), so that both leave in one packet. A close(2) alone would also
    /// send both together. But it would discard the held bytes if the peer has sent unread data.
    ///
    /// A ring has another kernel thread do a shutdown. So both are system calls under every poller.
    #[inline]
    pub(crate) fn send_last(&self, bytes: &[u8]) -> io::Result<Moved<usize>> {
        if let Some(channel) = self.channel {
            return channel.send_last(&self.network(), bytes);
        }
        let moved = self.send_by_call(bytes, SendFlags::MORE)?;
        if !moved.short {
            visibility::count(|counters| counters.other_calls.add(1));
            shutdown(self.descriptor, Shutdown::Write)?;
        }
        Ok(moved)
    }

    /// Sends some of `bytes` by a system call, after all earlier sends.
    #[inline]
    fn send_by_call(&self, bytes: &[u8], flags: SendFlags) -> io::Result<Moved<usize>> {
        let count = send(self.descriptor, bytes, flags | self.flags_of_call()?)?;
        count_written(count);
        Ok(Moved { value: count, short: count < bytes.len() })
    }

    /// The flags of a system call that sends after all earlier sends.
    #[inline]
    fn flags_of_call(&self) -> io::Result<SendFlags> {
        match self.ring {
            // A ring's socket is in blocking mode.
            Some((core, token)) => core.with_ring(|ring| ring.all_sent(token))?,
            None if self.at_once => {}
            None => return Ok(SendFlags::NOSIGNAL),
        }
        Ok(SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    /// Sends some of the bytes of `buffers`.
    #[inline]
    pub(crate) fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<Moved<usize>> {
        if self.channel.is_some() {
            return self.send_by_channel(buffers);
        }
        let offered: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let count = match self.ring {
            Some(ring) if !self.sends_at_once && offered < LONG => {
                return self.send_by_ring(ring, buffers);
            }
            None if !self.at_once => rustix::io::writev(self.descriptor, buffers)?,
            _ => {
                let flags = self.flags_of_call()?;
                sendmsg(self.descriptor, buffers, &mut SendAncillaryBuffer::default(), flags)?
            }
        };
        count_written(count);
        Ok(Moved { value: count, short: count < offered })
    }

    #[cold]
    fn send_by_channel(&self, buffers: &[IoSlice<'_>]) -> io::Result<Moved<usize>> {
        match self.channel {
            Some(channel) => channel.send(&self.network(), buffers),
            None => self.send_vectored(buffers),
        }
    }

    /// Ends our side after all that was sent before.
    pub(crate) fn end(&self) -> io::Result<Moved<()>> {
        match self.channel {
            Some(channel) => channel.end(&self.network()),
            None => self.call(|descriptor| Ok(shutdown(descriptor, Shutdown::Write)?)),
        }
    }

    /// The socket, with the channel that TLS has beneath itself.
    #[cfg(feature = "rustls")]
    pub(in crate::net) fn with_beneath<'a>(
        &'a self,
        beneath: Option<&'a dyn Channel>,
    ) -> Access<'a> {
        Access { channel: beneath, ..*self }
    }

    /// The socket itself, beneath its channel.
    fn network(&self) -> Self {
        Self { channel: None, ..*self }
    }

    fn send_by_ring(
        &self,
        (core, token): (&Core, Token),
        buffers: &[IoSlice<'_>],
    ) -> io::Result<Moved<usize>> {
        let send = |ring: &mut Ring| {
            // SAFETY: a `Socket` closes its descriptor through the loop that watches it, which
            // tells the ring.
            unsafe { ring.send(self.descriptor, token, buffers) }
        };
        let count = core.with_ring(send)?;
        count_written(count);
        Ok(Moved::all(count))
    }

    /// Accepts an injected connection. `None` if there will be no more.
    pub(in crate::net) fn accept_injected(
        &self,
        from: &Injections,
    ) -> io::Result<Moved<Option<OwnedFd>>> {
        Ok(Moved::all(from.accept(self.descriptor)?))
    }

    /// Accepts a connection. If the process drains, one of the `rest`.
    pub(crate) fn accept(&self, flags: SocketFlags, rest: &mut Rest) -> io::Result<Moved<OwnedFd>> {
        let by_ring = match self.ring {
            None => None,
            Some((core, token)) if self.by_system_calls => {
                core.with_ring(|ring| ring.accepted_before(token))
            }
            Some((core, token)) => {
                // SAFETY: a `Socket` closes its descriptor through the loop that watches it, which
                // tells the ring.
                Some(core.with_ring(|ring| unsafe { ring.accept(self.descriptor, token) })?)
            }
        };
        let call = |listener: BorrowedFd<'_>| Ok(accept_with(listener, flags)?);
        let accept = || match self.at_once {
            true => without_blocking(self.descriptor, || rest.take(self.descriptor, call)),
            false => rest.take(self.descriptor, call),
        };
        Ok(Moved::all(by_ring.map_or_else(accept, Ok)?))
    }

    /// Makes a system call that has no counterpart on a ring, after all earlier sends, without
    /// blocking on a loop.
    pub(crate) fn call<T>(
        &self,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<Moved<T>> {
        match self.ring.filter(|_| !self.by_system_calls) {
            // A ring's socket is in blocking mode.
            Some((core, token)) => core.with_ring(|ring| ring.all_sent(token))?,
            None if self.at_once => {}
            None => return Ok(Moved::all(call(self.descriptor)?)),
        }
        Ok(Moved::all(without_blocking(self.descriptor, || call(self.descriptor))?))
    }
}

/// Makes a system call that no flag keeps from waiting, on a descriptor in blocking mode.
fn without_blocking<T>(
    descriptor: BorrowedFd<'_>,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    ioctl_fionbio(descriptor, true)?;
    let outcome = call();
    ioctl_fionbio(descriptor, false)?;
    outcome
}

impl<T> Moved<T> {
    /// Another attempt finds out whether it would block.
    pub(in crate::net) const fn all(value: T) -> Self {
        Self { value, short: false }
    }
}

/// The interval at which a kernel thread looks for bytes that it cannot wait for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// The state of a connection that its client has ended (`TCP_CLOSE_WAIT` of tcp(7)).
const CLOSED_BY_CLIENT: u8 = 8;

/// Receives the first bytes of a connection, for as long as a drain waits for them. 0 means that
/// none came.
///
/// shutdown(2) has ended the input, so no wait ends when bytes come. But bytes can still be read.
#[cold]
fn first_bytes(socket: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let end = Instant::now() + FIRST_BYTES;
    loop {
        let is_over = Instant::now() >= end
            || tcp_info(socket).is_none_or(|info| info.state == CLOSED_BY_CLIENT);
        let (_, count) = recv(socket, &mut *buffer, RecvFlags::DONTWAIT)?;
        if count > 0 || is_over {
            return Ok(count);
        }
        let _ = poll(&mut [], Some(&LOOK));
    }
}

fn count_read(count: usize) {
    visibility::count(|counters| counters.read_bytes.add(count as u64));
}

pub(in crate::net) fn count_written(count: usize) {
    visibility::count(|counters| counters.written_bytes.add(count as u64));
}
