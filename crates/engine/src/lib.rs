//! The engine of `duality run`: user-level threads beneath an unmodified program.
//!
//! ```text
//!          the program, libc and its pthreads: untouched
//!   ──────────────────────┬──────────────────────────────────────────────
//!    a patched `syscall`  │
//!                         ▼
//!    entry/         dispatch, and the table of every system call
//!    calls/         what each call does
//!    workers/       what kernel threads do: the loop of a worker, helpers
//!    signals/       delivery
//!    descriptors/   what is known of them, readiness
//!    objects/       the program's objects, and the jumps in them
//!    show/          what is told
//!    schedule/      threads, tasks, waits, and whose turn it is
//!    kernel/        raw calls, the lock, memory
//!   ─────────────────────────────────────────────────────────────────────
//!          the kernel: a few threads
//! ```
//!
//! A folder uses those beneath it and no other: `cargo xtask tidy` reads the order here. Where one
//! beneath must call one above, the one above leaves a function there at the start.
//!
//! libc stays whole. libc's `pthread_create` makes the threads, and the locks are libc's. The
//! engine answers only libc's system calls.
//!
//! The library is built as a shared object by the build script of the `duality` command (`--cfg
//! engine_object`), which carries it. The library has its own heap. It has no std, no thread-local
//! storage, and no libc calls except `memcpy` and its kin.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod calls;
mod descriptors;
mod entry;
mod kernel;
mod objects;
mod schedule;
mod show;
mod signals;
mod workers;

#[cfg_attr(engine_object, global_allocator)]
static HEAP: kernel::memory::Heap = kernel::memory::Heap::new();

#[cfg(not(engine_object))]
pub use entry::start::{ENTRY, duality_engine_start, start};

#[cfg(engine_object)]
mod object {
    //! The parts of a shared object beyond the code: its constructor, a panic handler, and symbols
    //! for unwinding.

    use core::panic::PanicInfo;

    #[used]
    #[unsafe(link_section = ".init_array")]
    static START: unsafe extern "C" fn(usize, *mut *mut u8, *mut *mut u8) =
        crate::entry::start::start;

    #[panic_handler]
    fn panic(info: &PanicInfo<'_>) -> ! {
        crate::show::report::say(format_args!("{info}; please report it"));
        crate::kernel::sys::exit_group(70)
    }

    // Tables of the core library mention these symbols, though nothing unwinds here. The symbols
    // are hidden, because the program has its own.
    core::arch::global_asm!(
        ".globl rust_eh_personality, _Unwind_Resume",
        ".hidden rust_eh_personality, _Unwind_Resume",
        "rust_eh_personality:",
        "_Unwind_Resume: ud2",
    );
}
