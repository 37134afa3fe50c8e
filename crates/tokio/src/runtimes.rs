//! Runtimes of tokio's, with kernel threads that count what they do.

use std::cell::Cell;
use std::io;

use duality_runtime::visibility::{Occupancy, occupy};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    /// The place of this kernel thread among the counters.
    static COUNTED: Cell<Option<Occupancy>> = const { Cell::new(None) };
}

/// A runtime on the kernel thread that calls it.
///
/// # Errors
///
/// When no descriptor is left.
pub(crate) fn current_thread() -> io::Result<Runtime> {
    built(Builder::new_current_thread())
}

/// A runtime of so many kernel threads, which take tasks from one another.
///
/// # Errors
///
/// When no descriptor is left. Panics where no thread can be made, as tokio does.
pub(crate) fn multi_thread(threads: usize) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads);
    built(builder)
}

fn built(mut builder: Builder) -> io::Result<Runtime> {
    builder.on_thread_start(|| COUNTED.set(occupy())).on_thread_stop(|| drop(COUNTED.take()));
    builder.enable_all().build()
}
