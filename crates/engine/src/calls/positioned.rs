//! Calls that read and write at a position. On a file that has a position and no data yet, such as
//! `/proc/kmsg`, these calls may wait.

use crate::calls::transfer::attempt;
use crate::descriptors::registry::{self, Kind};
use crate::kernel::frame::Frame;
use crate::workers::helpers::{Interrupted, offload};

/// pread64(2), pwrite64(2), preadv(2), pwritev(2)
pub(crate) fn at_offset(frame: &mut Frame) -> isize {
    if may_wait(frame) {
        return offload(frame.number(), frame.arguments(), Interrupted::Restarts);
    }
    attempt(frame)
}

/// preadv2(2) and pwritev2(2)
pub(crate) fn with_flags(frame: &mut Frame) -> isize {
    const RWF_NOWAIT: usize = 8;
    if frame.argument(5) & RWF_NOWAIT != 0 { attempt(frame) } else { at_offset(frame) }
}

fn may_wait(frame: &Frame) -> bool {
    registry::get(frame.argument(0)).is_some_and(|descriptor| {
        descriptor.kind(frame.argument(0)) != Kind::Direct
            && !descriptor.is_nonblocking(frame.argument(0))
    })
}
