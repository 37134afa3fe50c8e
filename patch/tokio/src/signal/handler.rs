//! The handler of a signal, which makes an eventfd(2) readable.

use std::io;
use std::os::fd::OwnedFd;

use signal_hook_registry::{FORBIDDEN, SigId, register, unregister};

/// Keeps the handler of a signal until it is dropped. The signal is then ignored by this handler,
/// and does not have its default effect again.
#[derive(Debug)]
pub(super) struct Handler(SigId);

impl Handler {
    /// Has `signal` make `event` readable.
    ///
    /// # Errors
    ///
    /// If the signal cannot have a handler.
    pub(super) fn new(signal: i32, event: OwnedFd) -> io::Result<Self> {
        if signal <= 0 || FORBIDDEN.contains(&signal) {
            return Err(io::Error::other(format!("refusing to register signal {signal}")));
        }
        let tell = move || {
            // The write fails only if the event is readable already.
            let _ = rustix::io::write(&event, &1u64.to_ne_bytes());
        };
        // SAFETY: the function makes one write(2), which is async-signal-safe.
        let id = unsafe { register(signal, tell) }?;
        Ok(Self(id))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        unregister(self.0);
    }
}
