//! Sockets that code of a simulated host opens by `std`, before it hands them to a runtime.
//!
//! ```text
//!   std: bind ─ noted ─▶ listen ─ nothing ─▶ a runtime's from_std ─ getsockname: as noted ─▶ the
//!   simulated host listens there
//! ```
//!
//! The kernel gets no bind. So two hosts may have the same port, and no other process has it. The
//! same holds for UDP, and for abstract names of Unix sockets.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::MaybeUninit;

use crate::outside;

use crate::kernel::kernel;

/// The longest address.
type Longest = libc::sockaddr_un;

/// The place of the zero byte that begins an abstract name.
const ABSTRACT: usize = size_of::<libc::sa_family_t>();

/// An address, and its length.
#[derive(Clone, Copy)]
struct Address {
    bytes: [u8; size_of::<Longest>()],
    length: usize,
}

thread_local! {
    /// What this simulation has bound, by the numbers that the kernel gives to sockets.
    static BOUND: RefCell<BTreeMap<u64, Address>> = const { RefCell::new(BTreeMap::new()) };
}

/// bind(2). Within a simulation, an address of the internet is only noted, and so is an abstract
/// name of a Unix socket.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn bind(
    descriptor: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    let noted = outside::elapsed().and_then(|_| {
        let number = number(descriptor)?;
        // SAFETY: the caller promises that the address has this length.
        let address = unsafe { to_note(address, length as usize) }?;
        Some((number, address))
    });
    match noted {
        Some((number, address)) => {
            BOUND.with_borrow_mut(|bound| _ = bound.insert(number, address));
            0
        }
        // SAFETY: the arguments are the caller's, and the kernel checks them.
        None => unsafe {
            kernel(libc::SYS_bind, [descriptor as usize, address as usize, length as usize, 0])
                as c_int
        },
    }
}

/// listen(2). A socket with a noted address does nothing.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn listen(descriptor: c_int, backlog: c_int) -> c_int {
    match noted(descriptor) {
        Some(_) => 0,
        // SAFETY: the arguments are the caller's, and the kernel checks them.
        None => unsafe {
            kernel(libc::SYS_listen, [descriptor as usize, backlog as usize, 0, 0]) as c_int
        },
    }
}

/// getsockname(2). A noted address is the socket's own.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getsockname(
    descriptor: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> c_int {
    let Some(noted) = noted(descriptor) else {
        let arguments = [descriptor as usize, address as usize, length as usize, 0];
        // SAFETY: the arguments are the caller's, and the kernel checks them.
        return unsafe { kernel(libc::SYS_getsockname, arguments) as c_int };
    };
    // SAFETY: the caller promises a length, and a place of that length.
    unsafe {
        let room = (*length as usize).min(noted.length);
        address.cast::<u8>().copy_from_nonoverlapping(noted.bytes.as_ptr(), room);
        *length = noted.length as libc::socklen_t;
    }
    0
}

pub(crate) fn is_noted(descriptor: c_int) -> bool {
    noted(descriptor).is_some()
}

fn noted(descriptor: c_int) -> Option<Address> {
    outside::elapsed()?;
    BOUND.with_borrow(|bound| match bound.is_empty() {
        true => None,
        false => bound.get(&number(descriptor)?).copied(),
    })
}

/// The number of a socket for streams or datagrams. The kernel gives no number twice, but a
/// descriptor.
fn number(descriptor: c_int) -> Option<u64> {
    let mut kind: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    let mut state = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the places have the types that the calls write, and live for as long.
    let is_socket = unsafe {
        let option = (&raw mut kind).cast();
        libc::getsockopt(descriptor, libc::SOL_SOCKET, libc::SO_TYPE, option, &raw mut length) == 0
    } && matches!(kind, libc::SOCK_STREAM | libc::SOCK_DGRAM);
    // SAFETY: the place has the type that the call writes.
    if !is_socket || unsafe { libc::fstat(descriptor, state.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, and so has written the place.
    Some(unsafe { state.assume_init() }.st_ino)
}

/// An address of the internet, or an abstract name. `None` for others: the path of a Unix socket
/// becomes a file, as it does without a simulation.
///
/// # Safety
///
/// `address` is null or has `length` bytes.
unsafe fn to_note(address: *const libc::sockaddr, length: usize) -> Option<Address> {
    let mut noted = Address { bytes: [0; size_of::<Longest>()], length };
    if address.is_null() || length < size_of::<libc::sa_family_t>() || length > noted.bytes.len() {
        return None;
    }
    // SAFETY: the address has so many bytes, and so has the place.
    unsafe { noted.bytes.as_mut_ptr().copy_from_nonoverlapping(address.cast(), length) };
    // SAFETY: the address has a family, by its length.
    match c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() }) {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            noted.length = size_of::<libc::sockaddr_in>();
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            noted.length = size_of::<libc::sockaddr_in6>();
        }
        libc::AF_UNIX if length > ABSTRACT && noted.bytes[ABSTRACT] == 0 => {}
        _ => return None,
    }
    Some(noted)
}
