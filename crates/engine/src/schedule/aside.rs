//! A stack of the engine for each thread that was interrupted in its own code.
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
//! A thread has at most one such context. While the thread executes its own code, the stack is
//! free.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;

use crate::kernel::cells::Own;

/// The bytes that the engine's functions need.
const ROOM: usize = 12 << 10;

/// The stack, which is made when the thread is first interrupted.
pub(crate) struct Aside {
    start: Own<usize>,
    length: Own<usize>,
}

impl Aside {
    pub(crate) const fn new() -> Self {
        Self { start: Own::new(0), length: Own::new(0) }
    }

    /// The upper end of the stack. The stack has room for a frame with so many bytes of vector
    /// registers. `None`: there is no memory.
    pub(crate) fn top(&self, vectors: usize) -> Option<usize> {
        let wanted = (ROOM + vectors).next_power_of_two();
        if self.length.get() < wanted {
            self.give_back();
            // SAFETY: the layout is not empty.
            let start = unsafe { alloc(layout(wanted)) } as usize;
            if start == 0 {
                return None;
            }
            self.start.set(start);
            self.length.set(wanted);
        }
        Some(self.start.get() + self.length.get())
    }

    /// Gives the memory back. The thread has ended, or executes its own code.
    pub(crate) fn give_back(&self) {
        let (start, length) = (self.start.replace(0), self.length.replace(0));
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
