//! A row of the table of system calls: a number, a name, and the engine's treatment.

use crate::kernel::frame::Frame;
use crate::workers::helpers::Interrupted;

/// The engine's treatment of a call.
#[derive(Clone, Copy)]
pub(crate) enum Class {
    /// The call never waits for another thread or process, so the kernel executes the call at once.
    Direct,
    /// The engine makes the call itself, or parks the thread instead of blocking it.
    Emulated(fn(&mut Frame) -> isize),
    /// The call may block, so a helper executes the call.
    Offloaded(Interrupted),
}

pub(crate) struct Row {
    pub(crate) number: u16,
    pub(crate) name: &'static str,
    pub(crate) class: Class,
}

pub(crate) const fn at(number: u16, name: &'static str, class: Class) -> Row {
    Row { number, name, class }
}

/// A row of a call that the crate libc knows.
macro_rules! row {
    ($number:ident, $class:expr) => {
        // Each number is below 512.
        $crate::entry::row::at(libc::$number as u16, stringify!($number), $class)
    };
}
pub(crate) use row;
