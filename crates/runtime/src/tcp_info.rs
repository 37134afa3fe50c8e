//! The kernel's information on a TCP socket.

use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The first numbers of the kernel's `struct tcp_info` (linux/tcp.h), in its order.
///
/// The crate libc has the struct too, but its versions differ in how many numbers they know.
#[derive(Default)]
#[repr(C)]
pub(crate) struct TcpInfo {
    pub(crate) state: u8,
    _flags: [u8; 7],
    _limits: [u32; 4],
    pub(crate) unacked: u32,
    _losses: [u32; 4],
    pub(crate) last_data_sent: u32,
    _last_ack_sent: u32,
    pub(crate) last_data_recv: u32,
    _path: [u32; 3],
    pub(crate) rtt: u32,
    _windows: [u32; 8],
    _pacing: [u64; 2],
    _bytes_acked: u64,
    pub(crate) bytes_received: u64,
    _segs: [u32; 2],
    pub(crate) notsent_bytes: u32,
    _min_rtt: u32,
    _data_segs_in: u32,
    pub(crate) data_segs_out: u32,
}

const _: () = assert!(offset_of!(TcpInfo, rtt) == offset_of!(libc::tcp_info, tcpi_rtt));
const _: () = assert!(offset_of!(TcpInfo, bytes_received) == 128 && size_of::<TcpInfo>() == 160);

/// The numbers of a TCP socket (`TCP_INFO` of `tcp(7)`). `None` if the descriptor is no TCP socket.
/// An older kernel leaves unknown numbers at 0.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    let mut info = TcpInfo::default();
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, and the length to `length`.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (outcome == 0).then_some(info)
}

/// How a peer has ended its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer sends no more: it has closed, or has shut down its sending side. Both are the same
    /// packet. They cannot be told apart before something is sent to the peer.
    Sending,
    /// The connection is gone: the peer has reset it, or both sides have closed.
    Both,
}

/// States of a connection in `tcp_states.h` of Linux.
const CLOSED: u8 = 7;
const PEER_HAS_ENDED: [u8; 4] = [6, 8, 9, 11]; // TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING

/// How the peer has ended the connection, if it has.
pub(crate) fn closed(socket: BorrowedFd<'_>) -> Option<Closed> {
    match tcp_info(socket)?.state {
        CLOSED => Some(Closed::Both),
        state if PEER_HAS_ENDED.contains(&state) => Some(Closed::Sending),
        _ => None,
    }
}

/// The number of connections that wait to be accepted from a listening socket of TCP. `None` if the
/// socket is of another kind.
pub fn accept_queue_length(listener: BorrowedFd<'_>) -> Option<u32> {
    // For a listener, `tcpi_unacked` is the length of its accept queue.
    tcp_info(listener).map(|info| info.unacked)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(tcp_info(listener.as_fd()).unwrap().unacked, 1, "one waits to be accepted");
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 123]).unwrap();
        server.read_exact(&mut [0; 123]).unwrap();
        let (sent, received) =
            (tcp_info(client.as_fd()).unwrap(), tcp_info(server.as_fd()).unwrap());
        assert_eq!((received.bytes_received, sent.data_segs_out), (123, 1));
        assert_eq!(
            (received.state, received.notsent_bytes),
            (1, 0),
            "established, nothing to send"
        );
        assert!(sent.rtt > 0 && tcp_info(std::io::stdin().as_fd()).is_none());
    }

    #[test]
    fn the_kernel_tells_how_long_a_queue_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(accept_queue_length(listener.as_fd()), Some(0));
        let address = listener.local_addr().unwrap();
        let _waiting: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert_eq!(accept_queue_length(listener.as_fd()), Some(3));
    }
}
