//! Random bytes: by calls, and by reads of `/dev/urandom`.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use crate::outside;

use crate::fail;
use crate::kernel::kernel;

/// The devices of random bytes: `/dev/random` and `/dev/urandom` (random(4)).
const DEVICES: [libc::dev_t; 2] = [libc::makedev(1, 8), libc::makedev(1, 9)];

/// Fills a place from the seed. False outside of simulations.
///
/// # Safety
///
/// `buffer` is a place for `length` bytes.
unsafe fn fill(buffer: *mut c_void, length: usize, by: fn(&mut [u8]) -> bool) -> bool {
    if outside::elapsed().is_none() {
        return false;
    }
    // SAFETY: the caller promises that the place has this length. Zeros initialise it.
    let bytes = unsafe {
        buffer.cast::<u8>().write_bytes(0, length);
        std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length)
    };
    by(bytes)
}

/// getrandom(2).
///
/// # Safety
///
/// `buffer` is a place for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getrandom(
    buffer: *mut c_void,
    length: usize,
    flags: libc::c_uint,
) -> isize {
    // A length of 0 asks whether there is such a call, with a place that is none.
    // SAFETY: the caller promises what `fill` asks for.
    if length > 0 && unsafe { fill(buffer, length, outside::fill_random) } {
        return length as isize;
    }
    let arguments = [buffer as usize, length, flags as usize, 0];
    // SAFETY: the arguments are the caller's, and the kernel checks them.
    unsafe { kernel(libc::SYS_getrandom, arguments) as isize }
}

/// getentropy(3).
///
/// # Safety
///
/// `buffer` is a place for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getentropy(buffer: *mut c_void, length: usize) -> c_int {
    if length > 256 {
        return fail(libc::EIO);
    }
    // SAFETY: the arguments are the caller's.
    match unsafe { getrandom(buffer, length, 0) } {
        count if count == length as isize => 0,
        _ => -1,
    }
}

/// arc4random_buf(3).
///
/// # Safety
///
/// `buffer` is a place for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arc4random_buf(buffer: *mut c_void, length: usize) {
    let mut done = 0;
    while done < length {
        // SAFETY: the rest of the place is the caller's.
        let count = unsafe { getrandom(buffer.byte_add(done), length - done, 0) };
        done += usize::try_from(count).unwrap_or(0);
    }
}

/// arc4random(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn arc4random() -> u32 {
    let mut drawn = 0_u32;
    // SAFETY: the place has this length.
    unsafe { arc4random_buf((&raw mut drawn).cast(), size_of::<u32>()) };
    drawn
}

/// read(2). A device of random bytes gives those of the seed.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn read(
    descriptor: c_int,
    buffer: *mut c_void,
    count: usize,
) -> isize {
    let is_device = outside::elapsed().is_some() && is_device(descriptor);
    // SAFETY: the caller promises what `fill` asks for.
    if is_device && unsafe { fill(buffer, count, outside::fill_from_device) } {
        return count as isize;
    }
    // SAFETY: the arguments are the caller's, and the kernel checks them.
    unsafe { kernel(libc::SYS_read, [descriptor as usize, buffer as usize, count, 0]) as isize }
}

fn is_device(descriptor: c_int) -> bool {
    let mut state = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the place has the type that the call writes.
    if unsafe { libc::fstat(descriptor, state.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call has succeeded, and so has written the place.
    let state = unsafe { state.assume_init() };
    state.st_mode & libc::S_IFMT == libc::S_IFCHR && DEVICES.contains(&state.st_rdev)
}
