//! Connections and datagrams of `std` and of libraries in C. They would leave the simulation by the
//! machine's network, so that a simulated host refuses them.

use std::ffi::{c_int, c_void};

use crate::outside;

use crate::kernel::kernel;
use crate::sockets::is_noted;
use crate::{fail, genuine, place};

/// Fails the simulation, since `what` would leave it.
fn refuse(what: &str) {
    let place = place();
    outside::refuse(format!(
        "a simulated host {what} by std{place}: use duality::net, or tokio by Duality's patch"
    ));
}

/// Whether a call to this address would leave the simulation.
///
/// # Safety
///
/// `address` is null, or has a family.
unsafe fn leaves(address: *const libc::sockaddr) -> bool {
    if outside::elapsed().is_none() || address.is_null() {
        return false;
    }
    // SAFETY: the caller promises it.
    let family = c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() });
    matches!(family, libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX)
}

/// connect(2).
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn connect(
    descriptor: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    // SAFETY: an address has a family, or its length is too small for one.
    if length as usize >= size_of::<libc::sa_family_t>() && unsafe { leaves(address) } {
        refuse("connects");
        return fail(libc::ENETUNREACH);
    }
    let arguments = [descriptor as usize, address as usize, length as usize, 0];
    // SAFETY: the arguments are the caller's, and the kernel checks them.
    unsafe { kernel(libc::SYS_connect, arguments) as c_int }
}

/// accept4(2). A socket with a noted address would wait for ever.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn accept4(
    descriptor: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
    flags: c_int,
) -> c_int {
    if is_noted(descriptor) {
        refuse("accepts");
        return fail(libc::EINVAL);
    }
    let arguments = [descriptor as usize, address as usize, length as usize, flags as usize];
    // SAFETY: the arguments are the caller's, and the kernel checks them.
    unsafe { kernel(libc::SYS_accept4, arguments) as c_int }
}

/// accept(2). As [`accept4`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn accept(
    descriptor: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { accept4(descriptor, address, length, 0) }
}

type SendTo = unsafe extern "C" fn(
    c_int,
    *const c_void,
    usize,
    c_int,
    *const libc::sockaddr,
    libc::socklen_t,
) -> isize;

/// sendto(2).
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sendto(
    descriptor: c_int,
    bytes: *const c_void,
    count: usize,
    flags: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> isize {
    // SAFETY: as in `connect`.
    if length as usize >= size_of::<libc::sa_family_t>() && unsafe { leaves(address) } {
        refuse("sends a datagram");
        return fail(libc::ENETUNREACH) as isize;
    }
    // SAFETY: this is the function's type, and the arguments are the caller's.
    unsafe {
        let own: SendTo = std::mem::transmute(genuine(c"sendto"));
        own(descriptor, bytes, count, flags, address, length)
    }
}

type ReceiveFrom = unsafe extern "C" fn(
    c_int,
    *mut c_void,
    usize,
    c_int,
    *mut libc::sockaddr,
    *mut libc::socklen_t,
) -> isize;

/// recvfrom(2). A socket with a noted address would wait for ever.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn recvfrom(
    descriptor: c_int,
    bytes: *mut c_void,
    count: usize,
    flags: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> isize {
    if is_noted(descriptor) {
        refuse("receives datagrams");
        return fail(libc::EINVAL) as isize;
    }
    // SAFETY: this is the function's type, and the arguments are the caller's.
    unsafe {
        let own: ReceiveFrom = std::mem::transmute(genuine(c"recvfrom"));
        own(descriptor, bytes, count, flags, address, length)
    }
}
