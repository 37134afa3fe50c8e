//! Descriptors that become readable at a drain, for kernel threads that wait in place.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::getpid;

use super::Scope;

/// An eventfd(2) that is readable from the drain on. Kernel threads that wait in place poll it.
///
/// The event of the process is made when a thread first waits for it. The process id stands beside
/// the event, because a child that shares the event would notify its parent.
static PROCESS: AtomicU64 = AtomicU64::new(NONE);
static MAKING: Mutex<()> = Mutex::new(());

/// This value stands for neither a process nor a descriptor.
const NONE: u64 = u64::MAX;

fn pack(process: i32, event: RawFd) -> u64 {
    u64::from(process.cast_unsigned()) << 32 | u64::from(event.cast_unsigned())
}

fn unpack(packed: u64) -> (i32, RawFd) {
    (((packed >> 32) as u32).cast_signed(), (packed as u32).cast_signed())
}

/// The event of this process, if it has one.
fn event_of_process() -> Option<RawFd> {
    let (process, event) = unpack(PROCESS.load(Ordering::SeqCst));
    (process == getpid().as_raw_pid()).then_some(event)
}

/// Makes this kernel thread's events readable, if the process's drain concerns them.
/// Async-signal-safe. The flag of the drain has been set.
pub(super) fn tell_process() {
    fence(Ordering::SeqCst);
    if let Some(event) = event_of_process() {
        write(event);
    }
}

/// Makes the event of a part of the process readable. The flag of its drain has been set.
pub(super) fn tell_part(event: &OnceLock<OwnedFd>) {
    fence(Ordering::SeqCst);
    if let Some(event) = event.get() {
        write(event.as_raw_fd());
    }
}

fn write(event: RawFd) {
    let one = 1u64;
    // SAFETY: write(2) reads the eight bytes. The number is that of an event, which is never
    // closed.
    let _ = unsafe { libc::write(event, std::ptr::from_ref(&one).cast(), size_of::<u64>()) };
}

/// The events that become readable when a drain concerns this kernel thread: the process's event,
/// and its scope's. The caller must check afterwards whether a drain has already been requested.
///
/// # Errors
///
/// If no descriptor is left.
pub(crate) fn events() -> io::Result<(RawFd, Option<RawFd>)> {
    let process = match event_of_process() {
        Some(event) => event,
        None => make_event_of_process()?,
    };
    let scope = Scope::here();
    let part = scope.map(|scope| {
        let event = &scope.part.event;
        if event.get().is_none() {
            // Another thread may have been faster. Then its event serves as well.
            let _ = event.set(new_event()?);
        }
        Ok::<_, io::Error>(event.get().map(AsRawFd::as_raw_fd))
    });
    let part = part.transpose()?.flatten();
    fence(Ordering::SeqCst);
    Ok((process, part))
}

fn make_event_of_process() -> io::Result<RawFd> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(event) = event_of_process() {
        return Ok(event);
    }
    let event = std::os::fd::IntoRawFd::into_raw_fd(new_event()?);
    let before = PROCESS.swap(pack(getpid().as_raw_pid(), event), Ordering::SeqCst);
    if before != NONE {
        // SAFETY: the event of the parent of this process. This process has a descriptor of the
        // event that no other code closes.
        drop(unsafe { OwnedFd::from_raw_fd(unpack(before).1) });
    }
    Ok(event)
}

fn new_event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}
