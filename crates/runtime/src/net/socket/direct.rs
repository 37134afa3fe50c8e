//! Calls on a connection that never wait: addresses, options, ends. A channel without a network
//! beneath answers them itself; the descriptor of such a socket is not one.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::{Shutdown, SocketAddrAny, getpeername, getsockname, shutdown, sockopt};

use super::{Access, Channel, Socket};
use crate::tcp_info::{Closed, closed};

impl Socket {
    /// The socket for calls that never wait.
    #[inline]
    pub(in crate::net) fn direct(&self) -> Access<'_> {
        self.access(None, duality_poller::Direction::Read)
    }
}

impl Access<'_> {
    /// The channel, if it has no network beneath.
    #[inline]
    fn without_network(&self) -> Option<&dyn Channel> {
        self.channel.filter(|channel| channel.is_injected())
    }

    pub(in crate::net) fn local_address(&self) -> io::Result<SocketAddr> {
        match self.without_network().and_then(|channel| channel.addresses(self.descriptor)) {
            Some((own, _)) => Ok(own),
            None => internet_address(Some(getsockname(self.descriptor)?)),
        }
    }

    pub(in crate::net) fn peer_address(&self) -> io::Result<SocketAddr> {
        match self.without_network().and_then(|channel| channel.addresses(self.descriptor)) {
            Some((_, peer)) => Ok(peer),
            None => internet_address(getpeername(self.descriptor)?),
        }
    }

    pub(in crate::net) fn set_nodelay(&self, on: bool) -> io::Result<()> {
        match self.without_network() {
            Some(_) => Ok(()),
            None => Ok(sockopt::set_tcp_nodelay(self.descriptor, on)?),
        }
    }

    pub(in crate::net) fn nodelay(&self) -> io::Result<bool> {
        match self.without_network() {
            Some(_) => Ok(true),
            None => Ok(sockopt::tcp_nodelay(self.descriptor)?),
        }
    }

    pub(in crate::net) fn set_taking_limit(&self, limit: Duration) -> io::Result<()> {
        if let Some(channel) = self.without_network() {
            channel.set_taking_limit(self.descriptor, limit);
            return Ok(());
        }
        let milliseconds = limit.as_millis().try_into().unwrap_or(u32::MAX);
        Ok(sockopt::set_tcp_user_timeout(self.descriptor, milliseconds)?)
    }

    pub(in crate::net) fn set_linger_reset(&self) -> io::Result<()> {
        if let Some(channel) = self.channel {
            channel.break_off(self.descriptor);
        }
        match self.without_network() {
            Some(_) => Ok(()),
            None => Ok(sockopt::set_socket_linger(self.descriptor, Some(Duration::ZERO))?),
        }
    }

    /// Ends directions at once, whatever a ring has still to send.
    pub(in crate::net) fn shut_down(&self, how: Shutdown) -> io::Result<()> {
        match self.without_network() {
            Some(channel) => channel.shut_down(self.descriptor, how),
            None => Ok(shutdown(self.descriptor, how)?),
        }
    }

    /// How the peer has ended the connection, if it has.
    pub(in crate::net) fn has_closed(&self) -> Option<Closed> {
        if let Some(channel) = self.without_network() {
            return channel.has_closed(self.descriptor);
        }
        closed(self.descriptor)
    }
}

/// The address in `std`'s form. Sockets made here have no other kind.
pub(crate) fn internet_address(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    let address = address.ok_or(io::ErrorKind::NotConnected)?;
    SocketAddr::try_from(address).map_err(|_| io::Error::other("not an internet address"))
}
