//! Whether calls on a descriptor wait: `O_NONBLOCK`, as far as the engine knows it.

use crate::descriptors::facts;
use crate::descriptors::registry::Descriptor;
use crate::kernel::sys::{failed, sys};

impl Descriptor {
    /// Whether `O_NONBLOCK` is set. If other processes could change the flag, the engine asks the
    /// kernel each time.
    #[inline(always)]
    pub(crate) fn is_nonblocking(&self, number: usize) -> bool {
        self.mode(number).unwrap_or(true)
    }

    /// Like the function above, with the kernel's error. An error means that a thread has closed
    /// the number.
    #[inline(always)]
    pub(crate) fn mode(&self, number: usize) -> Result<bool, isize> {
        if self.has(facts::MODE_KNOWN) {
            Ok(self.has(facts::NONBLOCKING))
        } else {
            self.ask_mode(number)
        }
    }

    #[cold]
    fn ask_mode(&self, number: usize) -> Result<bool, isize> {
        let flags = sys!(SYS_fcntl, number, libc::F_GETFL);
        if failed(flags) {
            return Err(flags);
        }
        let nonblocking = flags as i32 & libc::O_NONBLOCK != 0;
        self.set_mode(nonblocking);
        Ok(nonblocking)
    }

    /// Remembers `O_NONBLOCK`, unless the flag can change behind the engine's back.
    pub(crate) fn set_mode(&self, nonblocking: bool) {
        if self.has(facts::SHARED) {
            return;
        }
        self.clear(facts::NONBLOCKING);
        self.set(facts::MODE_KNOWN | if nonblocking { facts::NONBLOCKING } else { 0 });
    }

    /// Notes that from now on, other descriptors refer to the same file.
    pub(crate) fn share(&self) {
        self.set(facts::SHARED);
        self.clear(facts::MODE_KNOWN | facts::NONBLOCKING | facts::TIMEOUTS_KNOWN);
    }

    /// Whether `O_NONBLOCK` is known not to be set.
    pub(crate) fn is_known_to_block(&self) -> bool {
        self.has(facts::MODE_KNOWN) && !self.has(facts::NONBLOCKING)
    }
}
