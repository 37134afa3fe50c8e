//! The engine of `duality run`: user-level threads beneath an unmodified program.
//!
//! ```text
//!                 the program, libc and its pthreads: untouched
//!   ────────────────────────────┬──────────────────────────────────────────
//!    a patched `syscall`        │ entry.rs        entry, switch: the only assembly
//!                               ▼
//!    dispatch.rs ── table.rs    every number: direct, emulated, or offloaded
//!       │
//!       ├─ process.rs           clone, fork, exec, exit
//!       ├─ futex.rs             the waits beneath locks and joins
//!       ├─ transfer.rs          read, write, send, receive: try, park, try again
//!       ├─ attempts.rs          the same for calls that only a helper can wait in
//!       ├─ connections.rs       accept, connect, sendfile
//!       ├─ receive.rs, uring.rs  receiving by a ring, with `--poller uring`
//!       ├─ waits.rs             poll, select, epoll, sleeps        children.rs: wait
//!       ├─ signal_calls.rs      masks, handlers, kill            signals.rs, masks.rs,
//!       │                                                          context.rs, delivery.rs,
//!       │                                                          storm.rs, trap.rs
//!       ├─ files.rs, regions.rs what the engine must know: descriptors, stacks, code
//!       ├─ task_folder.rs       `/proc/self/task`
//!       ├─ task_calls.rs        tasks of programs that `duality cc` has converted: task.rs, loops.rs
//!       └─ helpers.rs           calls that would block, on kernel threads
//!                               ▼
//!    scheduler.rs, pump.rs      run queue, timers, epoll         ticks.rs: preemption
//!    registration.rs            what epoll tells of
//!   ────────────────────────────────────────────────────────────────────────
//!                 the kernel: one thread, and the helpers
//! ```
//!
//! libc stays whole. Threads are made by its own `pthread_create`, locks are its own; only what it asks of
//! the kernel is answered here.
//!
//! The library is built as a shared object by the build script of the `duality` command (`--cfg
//! preload_object`), which carries it. It has no std, no libc calls except `memcpy` and its kin, no
//! thread-local storage, and a heap of its own.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod action;
mod attempts;
mod away;
mod bell;
mod children;
mod clock;
mod connections;
mod context;
mod credentials;
mod crew;
mod delivery;
mod descriptors;
mod dispatch;
mod dump;
mod edges;
mod elf;
mod entry;
mod errands;
mod fact;
mod files;
mod frame;
mod futex;
mod held;
mod helpers;
mod idle;
mod inspection;
mod kept;
mod kernel_thread;
mod known;
mod lock;
mod loops;
mod masked;
mod masks;
mod memory;
mod objects;
mod own;
mod poll_node;
mod process;
mod processor;
mod pump;
mod receive;
mod regions;
mod registration;
mod report;
mod request;
mod rings;
mod rseq;
mod scheduler;
mod settings;
mod shared;
mod signal_calls;
mod signals;
mod stacks;
mod stall;
mod start;
mod stats;
mod storm;
mod symbols;
mod sys;
mod table;
mod task;
mod task_calls;
mod task_folder;
mod thread;
mod thread_calls;
mod ticks;
mod timeouts;
mod timers;
mod transfer;
mod trap;
mod unwind;
mod uring;
mod user;
mod vectors;
mod waiter;
mod waits;
mod worker;

#[cfg_attr(preload_object, global_allocator)]
static HEAP: memory::Heap = memory::Heap::new();

#[cfg(not(preload_object))]
pub use start::{ENTRY, duality_engine_start, start};

#[cfg(preload_object)]
mod object {
    //! What a shared object needs beyond the code: its constructor, and an end for what cannot happen.

    use core::panic::PanicInfo;

    #[used]
    #[unsafe(link_section = ".init_array")]
    static START: unsafe extern "C" fn(usize, *mut *mut u8, *mut *mut u8) = crate::start::start;

    #[panic_handler]
    fn panic(info: &PanicInfo<'_>) -> ! {
        crate::report::say(format_args!("{info}; please report it"));
        crate::sys::exit_group(70)
    }

    // Tables of the core library mention them; nothing unwinds here. Hidden, for the program has its own.
    core::arch::global_asm!(
        ".globl rust_eh_personality, _Unwind_Resume",
        ".hidden rust_eh_personality, _Unwind_Resume",
        "rust_eh_personality:",
        "_Unwind_Resume: ud2",
    );
}
