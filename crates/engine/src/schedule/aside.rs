//! A stack of the engine for each thread that was interrupted in its own code. A thread also gets
//! one if it makes a system call while its stack pointer is not in its stack.
//!
//! The memory beneath a thread's stack pointer is free only if that pointer is in a stack. Erlang's
//! compiled code has it in the heap of a process. OCaml 5 has it in the stack of a fiber. Any
//! program may use the register for something else. So the engine writes nothing there. The kernel
//! writes nothing either, when it takes the processor from a thread.
//!
//! ```text
//!   the program's stack, or heap          the engine's stack for this thread
//!   ┌──────────────────────┐              ┌──────────────────────┐
//!   │ the interrupted code │              │ its vector registers │
//!   ├──────────────────────┤ ◀ its rsp    │ its Context          │
//!   │ not touched          │              ├──────────────────────┤
//!   │                      │              │ resume …, a switch   │
//! ```
//!
//! A system call that comes with such a stack pointer has its `Frame` at the same place, and the
//! engine executes beneath it. The entry (`entry/x86_64/assembly.rs`) leaves this stack before it
//! takes the engine's mark away. So a signal finds the thread in the engine, or beside this stack.
//!
//! A thread has at most one such context or frame. While the thread executes its own code, the
//! stack is free.
//!
//! The stack of a thread is what its maker gave to clone(2). The first thread has the stack of the
//! process. An alternate stack for signals is not in it. Nor are the stacks of fibers and
//! coroutines.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;

use crate::kernel::assertions::check;
use crate::kernel::cells::Own;

/// The bytes that the engine's functions need.
const ROOM: usize = 12 << 10;

/// The stack, which is made when the thread is first interrupted.
pub(crate) struct Aside {
    start: Own<usize>,
    length: Own<usize>,
    /// The upper end, or zero without a stack. The entry reads it.
    end: Own<usize>,
}

/// Where an `Aside` has its upper end.
pub(crate) const END_OFFSET: usize = core::mem::offset_of!(Aside, end);

impl Aside {
    pub(crate) const fn new() -> Self {
        Self { start: Own::new(0), length: Own::new(0), end: Own::new(0) }
    }

    /// The upper end of the stack. The stack has room for a frame with so many bytes of vector
    /// registers. `None`: there is no memory.
    pub(crate) fn top(&self, vectors: usize) -> Option<usize> {
        let wanted = (ROOM + vectors).next_power_of_two();
        if self.length.get() < wanted {
            self.give_back();
            // SAFETY: `alloc` asks for a layout of at least one byte, and this has `ROOM`.
            let start = unsafe { alloc(layout(wanted)) } as usize;
            if start == 0 {
                return None;
            }
            self.start.set(start);
            self.length.set(wanted);
            self.end.set(start + wanted);
        }
        Some(self.end.get())
    }

    /// Whether an address is on this stack.
    pub(crate) fn contains(&self, address: usize) -> bool {
        (self.start.get()..self.end.get()).contains(&address)
    }

    /// Takes over the stack of another thread, which goes on as this one. This one's own stack is
    /// free.
    pub(crate) fn take_over(&self, other: &Self) {
        self.give_back();
        self.start.set(other.start.replace(0));
        self.length.set(other.length.replace(0));
        self.end.set(other.end.replace(0));
    }

    /// Gives the memory back. The thread has ended, or executes its own code.
    pub(crate) fn give_back(&self) {
        let here = 0u8;
        check!(!self.contains(&raw const here as usize), "the stack in use is given back");
        let (start, length) = (self.start.replace(0), self.length.replace(0));
        self.end.set(0);
        if length > 0 {
            // SAFETY: allocated by `top` with this layout, and no context is there.
            unsafe { dealloc(start as *mut u8, layout(length)) };
        }
    }
}

fn layout(length: usize) -> Layout {
    const ALIGNMENT: usize = 64;
    // SAFETY: the alignment is a power of two, and the length is far below the limit.
    unsafe { Layout::from_size_align_unchecked(length, ALIGNMENT) }
}
