//! The answers of the simulation, where this crate is an object that `duality simulate` preloads.
//! The functions are those of `duality_simulate::outside`. Its module `object` has the other end.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

type Ask = extern "C" fn(u32, *mut u8, usize, u64) -> i64;

/// The command's function, once it has joined.
static ASK: AtomicPtr<std::ffi::c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The command gives its function.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn duality_outside_join(ask: Ask) {
    ASK.store(ask as *mut _, Ordering::Release);
}

/// Asks the command. `None` if it has no answer.
fn ask(question: u32, bytes: &mut [u8], number: u64) -> Option<i64> {
    let ask = ASK.load(Ordering::Acquire);
    if ask.is_null() {
        return None;
    }
    // SAFETY: this is the function's type.
    let ask: Ask = unsafe { std::mem::transmute(ask) };
    let answer = ask(question, bytes.as_mut_ptr(), bytes.len(), number);
    (answer != -1).then_some(answer)
}

pub(crate) fn elapsed() -> Option<u64> {
    ask(0, &mut [], 0).map(|time| time as u64)
}

pub(crate) fn time_of_day() -> Option<u64> {
    ask(1, &mut [], 0).map(|time| time as u64)
}

pub(crate) fn fill_random(bytes: &mut [u8]) -> bool {
    ask(2, bytes, 0) == Some(1)
}

pub(crate) fn fill_from_device(bytes: &mut [u8]) -> bool {
    ask(12, bytes, 0) == Some(1)
}

pub(crate) fn look_up(name: &str) -> Option<IpAddr> {
    let address = ask(3, &mut name.as_bytes().to_vec(), 0)?;
    Some(IpAddr::V4(Ipv4Addr::from_bits(address as u32)))
}

pub(crate) fn process_id() -> Option<u32> {
    ask(4, &mut [], 0).map(|number| number as u32)
}

pub(crate) fn processors() -> Option<usize> {
    ask(5, &mut [], 0).map(|count| count as usize)
}

pub(crate) fn sleep(duration: Duration) -> bool {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    ask(6, &mut [], nanoseconds) == Some(1)
}

/// What a kernel thread inherits of its starter.
#[derive(Clone, Copy)]
pub(crate) struct Inherited([u8; 24]);

pub(crate) fn inherit() -> Option<Inherited> {
    let mut words = [0; 24];
    ask(7, &mut words, 0).map(|_| Inherited(words))
}

pub(crate) fn adopt(Inherited(mut words): Inherited) {
    ask(8, &mut words, 0);
}

pub(crate) fn sync(path: &Path) -> Option<io::Result<()>> {
    let error = ask(9, &mut path.as_os_str().as_bytes().to_vec(), 0)?;
    Some(if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error as i32)) })
}

pub(crate) fn write(path: &Path, count: usize) -> io::Result<usize> {
    match ask(10, &mut path.as_os_str().as_bytes().to_vec(), count as u64) {
        None => Ok(count),
        // `-1` would be no answer, and EPERM is no error of a disk.
        Some(error @ ..0) => Err(io::Error::from_raw_os_error(-error as i32)),
        Some(taken) => Ok(taken as usize),
    }
}

pub(crate) fn refuse(why: String) {
    ask(11, &mut why.into_bytes(), 0);
}
