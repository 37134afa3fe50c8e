//! A description of the threads for debuggers, which a worker points to at `gs:16`.
//!
//! `crates/duality/src/run/threads.py` reads it with gdb: words in this order, then the offsets of
//! fields.

use core::cell::Cell;
use core::mem::offset_of;

use crate::schedule::thread::{MAIN, Thread};
use crate::schedule::waiter::Waiter;

const MAGIC: u64 = 0x6475_616c_6974_7931;

/// The data that a debugger needs to list threads and to find their stacks.
#[repr(C)]
pub(crate) struct Description {
    magic: Cell<u64>,
    main: Cell<usize>,
    /// The address of the address of the table, and of the number of entries in use.
    table: Cell<usize>,
    used: Cell<usize>,
    size: Cell<usize>,
    id: Cell<usize>,
    state: Cell<usize>,
    place: Cell<usize>,
    name: Cell<usize>,
    call: Cell<usize>,
    awaited: Cell<usize>,
}

// SAFETY: written once, before a second kernel thread exists.
unsafe impl Sync for Description {}

pub(crate) static DESCRIPTION: Description = Description {
    magic: Cell::new(0),
    main: Cell::new(0),
    table: Cell::new(0),
    used: Cell::new(0),
    size: Cell::new(size_of::<Thread>()),
    id: Cell::new(offset_of!(Thread, id)),
    // The waiter is a thread's first field.
    state: Cell::new(offset_of!(Waiter, state)),
    place: Cell::new(offset_of!(Thread, place)),
    name: Cell::new(offset_of!(Thread, name)),
    call: Cell::new(offset_of!(Thread, call)),
    awaited: Cell::new(offset_of!(Waiter, waits_for)),
};

/// Fills in the data that are known when the engine starts.
pub(crate) fn describe(table: usize, used: usize) {
    DESCRIPTION.main.set(&raw const MAIN as usize);
    DESCRIPTION.table.set(table);
    DESCRIPTION.used.set(used);
    DESCRIPTION.magic.set(MAGIC);
}
