//! Access to the program's memory. A bad address results in `EFAULT`, as in the kernel.
//!
//! The accesses are a few instructions between two marks. The handler of `SIGSEGV` knows the marks,
//! and has an access that faults return 1.

use core::mem::MaybeUninit;

use crate::kernel::frame::{
    duality_user_begin, duality_user_copy, duality_user_end, duality_user_exchange,
    duality_user_fault, duality_user_load,
};
use crate::kernel::plain::Plain;
use crate::kernel::sys::EFAULT;

/// The upper end of the addresses that a program has.
const END: usize = 1 << 47;

/// Reads a plain value: every bit pattern of `T` is a `T`.
pub(crate) fn read<T: Plain>(address: usize) -> Result<T, isize> {
    let mut value = MaybeUninit::<T>::uninit();
    copy_in(address, value.as_mut_ptr().cast(), size_of::<T>())?;
    // SAFETY: all bytes have been copied, and `T` is plain.
    Ok(unsafe { value.assume_init() })
}

/// Reads a value unless the address is zero.
pub(crate) fn read_optional<T: Plain>(address: usize) -> Result<Option<T>, isize> {
    if address == 0 { Ok(None) } else { read(address).map(Some) }
}

/// Writes a plain value.
pub(crate) fn write<T: Plain>(address: usize, value: &T) -> Result<(), isize> {
    write_bytes(address, (&raw const *value).cast(), size_of::<T>())
}

/// Writes a value unless the address is zero.
pub(crate) fn write_optional<T: Plain>(address: usize, value: &T) -> Result<(), isize> {
    if address == 0 { Ok(()) } else { write(address, value) }
}

/// Reads as many values as `into` has room for.
pub(crate) fn read_slice<T: Plain>(address: usize, into: &mut [T]) -> Result<(), isize> {
    copy_in(address, into.as_mut_ptr().cast(), size_of_val(into))
}

/// Writes `values`.
pub(crate) fn write_slice<T: Plain>(address: usize, values: &[T]) -> Result<(), isize> {
    write_bytes(address, values.as_ptr().cast(), size_of_val(values))
}

/// Reads bytes up to a zero, as far as there is room.
pub(crate) fn read_text(address: usize, into: &mut [u8]) -> Result<&[u8], isize> {
    for index in 0..into.len() {
        let byte: u8 = read(address + index)?;
        if byte == 0 {
            return Ok(&into[..index]);
        }
        into[index] = byte;
    }
    Ok(into)
}

/// A word that threads wait on.
pub(crate) fn load_word(address: usize) -> Result<u32, isize> {
    let mut value = 0;
    check(address, 4)?;
    // SAFETY: if nothing is at the address, the handler of faults makes the function return 1.
    let fault = unsafe { duality_user_load(address as *const u32, &raw mut value) };
    if fault == 0 { Ok(value) } else { Err(EFAULT) }
}

/// Replaces `expected` by `new` in one step, or returns the value that was there instead.
pub(crate) fn exchange_word(
    address: usize,
    expected: u32,
    new: u32,
) -> Result<Result<(), u32>, isize> {
    let mut found = expected;
    check(address, 4)?;
    // SAFETY: if nothing is at the address, the handler of faults makes the function return 1.
    let fault = unsafe { duality_user_exchange(address as *mut u32, &raw mut found, new) };
    match fault {
        0 if found == expected => Ok(Ok(())),
        0 => Ok(Err(found)),
        _ => Err(EFAULT),
    }
}

/// Changes a word in one step, and returns the old value.
pub(crate) fn update_word(address: usize, change: impl Fn(u32) -> u32) -> Result<u32, isize> {
    let mut seen = load_word(address)?;
    loop {
        match exchange_word(address, seen, change(seen))? {
            Ok(()) => return Ok(seen),
            Err(other) => seen = other,
        }
    }
}

fn check(address: usize, length: usize) -> Result<(), isize> {
    let inside = address.checked_add(length).is_some_and(|end| end <= END);
    if inside { Ok(()) } else { Err(EFAULT) }
}

fn copy_in(address: usize, into: *mut u8, length: usize) -> Result<(), isize> {
    check(address, length)?;
    // SAFETY: `into` has room for `length` bytes; a fault at the other address is caught.
    let fault = unsafe { duality_user_copy(into, address as *const u8, length) };
    if fault == 0 { Ok(()) } else { Err(EFAULT) }
}

/// Writes `length` bytes of `from`.
pub(crate) fn write_bytes(address: usize, from: *const u8, length: usize) -> Result<(), isize> {
    check(address, length)?;
    // SAFETY: `from` has `length` bytes; a fault at the other address is caught.
    let fault = unsafe { duality_user_copy(address as *mut u8, from, length) };
    if fault == 0 { Ok(()) } else { Err(EFAULT) }
}

/// Copies bytes between two places of the program's memory, which do not overlap.
pub(crate) fn copy(to: usize, from: usize, length: usize) -> Result<(), isize> {
    check(from, length)?;
    check(to, length)?;
    // SAFETY: a fault at either address is caught.
    let fault = unsafe { duality_user_copy(to as *mut u8, from as *const u8, length) };
    if fault == 0 { Ok(()) } else { Err(EFAULT) }
}

/// The address at which an access to the program's memory goes on after a fault at the instruction
/// `address`.
pub(crate) fn after_fault(address: usize) -> Option<usize> {
    let marks = duality_user_begin as *const () as usize..duality_user_end as *const () as usize;
    marks.contains(&address).then_some(duality_user_fault as *const () as usize)
}
