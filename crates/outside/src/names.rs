//! Names of hosts.

use std::ffi::{CStr, CString};

use crate::outside;

use crate::genuine;

type GetAddrInfo = unsafe extern "C" fn(
    *const libc::c_char,
    *const libc::c_char,
    *const libc::addrinfo,
    *mut *mut libc::addrinfo,
) -> libc::c_int;

/// getaddrinfo(3). The C library turns the address of a simulated host into a result, so that its
/// freeaddrinfo(3) takes the result back.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getaddrinfo(
    node: *const libc::c_char,
    service: *const libc::c_char,
    hints: *const libc::addrinfo,
    result: *mut *mut libc::addrinfo,
) -> libc::c_int {
    // SAFETY: this is the function's type.
    let own: GetAddrInfo = unsafe { std::mem::transmute(genuine(c"getaddrinfo")) };
    if outside::elapsed().is_none() || node.is_null() {
        // SAFETY: the arguments are the caller's.
        return unsafe { own(node, service, hints, result) };
    }
    // SAFETY: the caller promises a string of C.
    let name = unsafe { CStr::from_ptr(node) }.to_string_lossy();
    let address = name.parse().ok().or_else(|| outside::look_up(&name));
    let Some(address) = address.and_then(|address| CString::new(address.to_string()).ok()) else {
        return libc::EAI_NONAME;
    };
    // SAFETY: as above. An address needs no look-up.
    unsafe { own(address.as_ptr(), service, hints, result) }
}
