//! Facts about a descriptor, as bits.

/// Registered with epoll.
pub(crate) const REGISTERED: u8 = 1;
/// epoll refuses it.
pub(crate) const REFUSED: u8 = 2;
/// `O_NONBLOCK` is known: see the next bit.
pub(crate) const MODE_KNOWN: u8 = 4;
/// `O_NONBLOCK` is set.
pub(crate) const NONBLOCKING: u8 = 8;
/// Other descriptors, perhaps in other processes, refer to the same file.
pub(crate) const SHARED: u8 = 16;
/// The other side has hung up, so a short read no longer shows that the socket is empty.
pub(crate) const HUNG_UP: u8 = 32;
/// A folder with entries that the engine makes, see `tasks`.
pub(crate) const LISTS_THREADS: u8 = 128;
/// The socket's timeouts are known.
pub(crate) const TIMEOUTS_KNOWN: u8 = 64;
