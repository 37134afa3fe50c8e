//! Runtimes of tokio, with kernel threads that count their work.

use std::cell::Cell;
use std::io;

use duality_runtime::visibility::{Occupancy, occupy};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    /// The place of this kernel thread among the counters.
    static COUNTED: Cell<Option<Occupancy>> = const { Cell::new(None) };
}

/// Makes a runtime on the kernel thread that calls this function.
///
/// # Errors
///
/// Fails when no descriptor is left.
pub(crate) fn current_thread() -> io::Result<Runtime> {
    built(Builder::new_current_thread())
}

/// Makes a runtime of `threads` kernel threads, which take tasks from one another.
///
/// # Errors
///
/// Fails when no descriptor is left. Panics if no thread can be made, as tokio does.
pub(crate) fn multi_thread(threads: usize) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads);
    built(builder)
}

fn built(mut builder: Builder) -> io::Result<Runtime> {
    builder.on_thread_start(|| COUNTED.set(occupy())).on_thread_stop(|| drop(COUNTED.take()));
    builder.enable_all().build()
}
