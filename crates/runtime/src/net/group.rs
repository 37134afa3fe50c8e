//! Listening sockets that share one address, and a choice of the socket that gets a new connection.
//!
//! ```text
//!   SYN ──▶ the group of the address ──▶ a program in the kernel: an index ──▶ one accept queue
//! ```
//!
//! The program is classic BPF (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)) and needs no privilege. The
//! kernel counts the sockets of a group in the order of their listen(2). When a socket of a group
//! is closed, the last socket takes its index. So a group here closes its sockets together.
//!
//! A program is replaced in one step. A connection stays with the socket that got its SYN.

use std::ffi::{c_int, c_void};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{getsockname, listen};

use super::internet_address;
use super::listener::bound;

/// Listening sockets at one address.
#[derive(Debug)]
pub struct ListenerGroup {
    /// The sockets, in the order in which the kernel counts them.
    listeners: Vec<OwnedFd>,
    address: SocketAddr,
}

/// The choice of the socket that gets a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'w> {
    /// Always this socket.
    One(usize),
    /// A random socket for each connection. A socket of weight 0 gets none.
    AtRandom(&'w [u32]),
}

impl ListenerGroup {
    /// Listens at `address` with `count` sockets, each with a queue for `backlog` connections. Port
    /// 0 takes a free port. At first, the first socket is chosen.
    ///
    /// # Errors
    ///
    /// `AddrInUse`, even if the other listener would share the address. `Unsupported` if the kernel
    /// has no such choice. The errors of `socket(2)` and `bind(2)`.
    pub fn bind(address: SocketAddr, count: usize, backlog: i32) -> io::Result<Self> {
        // These sockets would join another group of this user at the address.
        drop(bound(address, false)?);
        let first = bound(address, true)?;
        let address = internet_address(Some(getsockname(&first)?))?;
        let mut listeners = vec![first];
        for _ in 1..count {
            listeners.push(bound(address, true)?);
        }
        for listener in &listeners {
            listen(listener, backlog)?;
        }
        let group = Self { listeners, address };
        group.choose(Choice::One(0)).map_err(|error| {
            let problem = format!("the kernel cannot choose among listeners: {error}");
            io::Error::new(io::ErrorKind::Unsupported, problem)
        })?;
        Ok(group)
    }

    /// The address, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of sockets.
    pub fn count(&self) -> usize {
        self.listeners.len()
    }

    /// The socket with this index.
    ///
    /// # Panics
    ///
    /// If there is no such socket.
    pub fn listener(&self, index: usize) -> BorrowedFd<'_> {
        self.listeners[index].as_fd()
    }

    /// Whether connections wait in the accept queue of this socket.
    ///
    /// # Panics
    ///
    /// If there is no such socket.
    pub fn has_connections(&self, index: usize) -> bool {
        let mut queue = [PollFd::new(&self.listeners[index], PollFlags::IN)];
        poll(&mut queue, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Sets the choice for all later connections.
    ///
    /// # Errors
    ///
    /// The errors of setsockopt(2).
    ///
    /// # Panics
    ///
    /// If the choice names a socket that does not exist, or gives no socket any weight.
    pub fn choose(&self, choice: Choice<'_>) -> io::Result<()> {
        let program = match choice {
            Choice::One(index) => {
                assert!(index < self.count(), "the group has no socket {index}");
                vec![answer(index as u32)]
            }
            Choice::AtRandom(weights) => {
                assert!(weights.len() <= self.count(), "more weights than sockets");
                by_lot(weights)
            }
        };
        attach(self.listener(0), libc::SO_ATTACH_REUSEPORT_CBPF, &program)
    }

    /// From now on, no client can begin a connection. Connections that have begun are completed,
    /// and can be accepted. A client that comes now gets no answer, and tries again a second later.
    /// By then the caller may have closed the sockets, so that the client gets a refusal.
    ///
    /// # Errors
    ///
    /// The errors of setsockopt(2).
    pub fn close_to_newcomers(&self) -> io::Result<()> {
        /// The byte of a TCP header with its flags, and two of the flags.
        const FLAGS: u32 = 13;
        const SYN: u32 = 0x02;
        const ACK: u32 = 0x10;
        /// More bytes than any packet has, so the packet passes whole.
        const ALL: u32 = u32::MAX;
        let program = [
            step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, FLAGS, 0, 0),
            step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, SYN | ACK, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, SYN, 0, 1),
            answer(0),
            answer(ALL),
        ];
        let attached =
            |listener: &OwnedFd| attach(listener.as_fd(), libc::SO_ATTACH_FILTER, &program);
        self.listeners.iter().try_for_each(attached)
    }
}

/// A program that draws an index: it compares a random number with the bounds of the shares.
fn by_lot(weights: &[u32]) -> Vec<libc::sock_filter> {
    /// The kernel answers a load from this address with a random number of 32 bits.
    const RANDOM: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let total: u64 = weights.iter().copied().map(u64::from).sum();
    let last = weights.iter().rposition(|weight| *weight > 0).expect("a socket has a weight");
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, RANDOM, 0, 0)];
    let mut below = 0;
    for (index, weight) in weights.iter().enumerate().take(last) {
        below += u64::from(*weight);
        let bound = ((u128::from(below) << 32) / u128::from(total)) as u32;
        program.push(step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, bound, 1, 0));
        program.push(answer(index as u32));
    }
    program.push(answer(last as u32));
    program
}

/// Ends a program with a number.
pub(super) fn answer(number: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, number, 0, 0)
}

/// An instruction. `jt` and `jf` are the numbers of instructions to skip if a comparison holds, or
/// does not hold.
pub(super) fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    // All codes of classic BPF have 16 bits.
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Gives the kernel a program for a socket.
pub(super) fn attach(
    socket: BorrowedFd<'_>,
    option: c_int,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: the descriptor is open for as long as it is borrowed. The value is a `sock_fprog` of
    // the given length, and points to the stated number of instructions. The kernel copies the
    // instructions during the call, and writes nothing.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast::<c_void>(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    fn group(count: usize) -> ListenerGroup {
        ListenerGroup::bind(([127, 0, 0, 1], 0).into(), count, 1024).unwrap()
    }

    /// The number of connections that wait at each socket. This function accepts them, and keeps
    /// them in `kept`.
    fn waiting(group: &ListenerGroup, kept: &mut Vec<TcpStream>) -> Vec<usize> {
        let of = |index: usize| {
            let listener = group.listener(index).try_clone_to_owned().unwrap();
            let listener = TcpListener::from(listener);
            let before = kept.len();
            while group.has_connections(index) {
                kept.push(listener.accept().unwrap().0);
            }
            kept.len() - before
        };
        (0..group.count()).map(of).collect()
    }

    fn connect(group: &ListenerGroup, count: usize) -> Vec<TcpStream> {
        (0..count).map(|_| TcpStream::connect(group.address()).unwrap()).collect()
    }

    #[test]
    fn the_chosen_socket_gets_every_connection() {
        let (group, mut kept) = (group(3), Vec::new());
        for index in [0, 2, 1, 2] {
            group.choose(Choice::One(index)).unwrap();
            kept.extend(connect(&group, 30));
            let mut expected = [0; 3];
            expected[index] = 30;
            assert_eq!(waiting(&group, &mut kept), expected, "{index}");
        }
    }

    #[test]
    fn connections_are_drawn_by_their_weights() {
        let (group, mut kept) = (group(4), Vec::new());
        group.choose(Choice::AtRandom(&[10, 0, 30, 0])).unwrap();
        kept.extend(connect(&group, 400));
        let found = waiting(&group, &mut kept);
        assert_eq!((found[1], found[3], found[0] + found[2]), (0, 0, 400), "{found:?}");
        // Six standard deviations of 400 draws.
        assert!((48..=152).contains(&found[0]), "{found:?}");
        group.choose(Choice::AtRandom(&[0, 1])).unwrap();
        kept.extend(connect(&group, 20));
        assert_eq!(waiting(&group, &mut kept), [0, 20, 0, 0]);
    }

    #[test]
    fn a_taken_address_is_refused_even_by_those_that_would_share_it() {
        let one = group(2);
        let refused = ListenerGroup::bind(one.address(), 2, 16).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse, "{refused}");
    }

    #[test]
    fn a_closed_group_completes_what_has_begun_and_answers_no_newcomer() {
        let (group, mut kept) = (group(2), Vec::new());
        group.choose(Choice::One(1)).unwrap();
        kept.extend(connect(&group, 3));
        group.close_to_newcomers().unwrap();
        // An open connection goes on.
        assert_eq!(waiting(&group, &mut kept), [0, 3]);
        let address = group.address();
        let late = thread::spawn(move || {
            let begun = Instant::now();
            let refused = TcpStream::connect_timeout(&address, Duration::from_millis(300));
            (refused.map(drop).map_err(|error| error.kind()), begun.elapsed())
        });
        let (refused, waited) = late.join().unwrap();
        // The client did not learn that the port is closed.
        assert_eq!(refused, Err(io::ErrorKind::TimedOut));
        assert!(waited >= Duration::from_millis(300));
    }
}
