//! The timeouts of sockets (`SO_RCVTIMEO`, `SO_SNDTIMEO` of socket(7)), which end calls that wait.

use crate::descriptors::facts;
use crate::descriptors::registry::{Descriptor, Direction, Kind};
use crate::kernel::clock::{self, NEVER, Nanoseconds};
use crate::kernel::sys::sys;

impl Descriptor {
    /// The deadline that the socket's own timeout sets (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
    pub(crate) fn socket_deadline(&self, number: usize, direction: Direction) -> Nanoseconds {
        if !matches!(self.kind(number), Kind::Stream | Kind::Message) {
            return NEVER;
        }
        if !self.has(facts::TIMEOUTS_KNOWN) {
            self.ask_timeouts(number);
        }
        match self.timeouts[direction as usize].get() {
            0 => NEVER,
            time => clock::now() + time,
        }
    }

    #[cold]
    fn ask_timeouts(&self, number: usize) {
        for (timeout, option) in self.timeouts.iter().zip([libc::SO_RCVTIMEO, libc::SO_SNDTIMEO]) {
            let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
            let mut length = size_of::<libc::timeval>() as u32;
            sys!(SYS_getsockopt, number, libc::SOL_SOCKET, option, &mut time, &mut length);
            timeout.set(time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000);
        }
        // Another process can change the timeouts of a shared socket.
        if !self.has(facts::SHARED) {
            self.set(facts::TIMEOUTS_KNOWN);
        }
    }
}
