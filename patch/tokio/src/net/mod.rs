//! Sockets of TCP, UDP and Unix, and host names.

mod address;
mod blocked;
mod calls;
mod common;
mod datagram_calls;
mod halves;
mod socket;
mod streams;
pub mod tcp;
mod tcp_socket;
mod traits;
mod udp;
pub mod unix;

pub use self::address::{ToSocketAddrs, lookup_host};
pub use self::tcp::{TcpListener, TcpStream};
pub use self::tcp_socket::TcpSocket;
pub use self::udp::UdpSocket;
pub use self::unix::datagram::UnixDatagram;
pub use self::unix::listener::UnixListener;
pub use self::unix::socket::UnixSocket;
pub use self::unix::stream::UnixStream;
