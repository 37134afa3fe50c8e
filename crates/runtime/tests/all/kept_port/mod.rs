//! A port for a server that cannot listen on port 0, or for no server at all.

#![allow(unreachable_pub, reason = "one of the crates that have this module exports it")]

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

/// A port of 127.0.0.1. The kernel refuses connections to it until a server listens there, and does
/// not give it to sockets that bind port 0. A server that sets SO_REUSEADDR can listen there
/// meanwhile (socket(7)). A port that was only looked up may be another test's before its use.
pub struct KeptPort {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl KeptPort {
    /// Takes any port that is free.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn keep() -> Self {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        set_socket_reuseaddr(&socket, true).unwrap();
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = getsockname(&socket).unwrap().try_into().unwrap();
        Self { address, _socket: socket }
    }

    /// The address, with the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
