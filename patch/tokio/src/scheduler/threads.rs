//! The kernel threads of a runtime.

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

type Hook = Arc<dyn Fn() + Send + Sync>;
type Namer = Arc<dyn Fn() -> String + Send + Sync>;

/// What a program may say of the threads of its runtime.
#[derive(Clone)]
pub(crate) struct ThreadOptions {
    pub(crate) name: Namer,
    pub(crate) stack_size: usize,
    pub(crate) on_start: Option<Hook>,
    pub(crate) on_stop: Option<Hook>,
}

/// The number of threads of a runtime that have not ended.
#[derive(Default)]
pub(crate) struct ThreadCount(Arc<(Mutex<usize>, Condvar)>);

/// Counts the end of a thread when it is dropped.
struct Counted(Arc<(Mutex<usize>, Condvar)>);

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.1.notify_all();
    }
}

impl ThreadCount {
    /// Starts a thread.
    pub(crate) fn start(
        &self,
        options: &ThreadOptions,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let counted = Counted(self.0.clone());
        let (on_start, on_stop) = (options.on_start.clone(), options.on_stop.clone());
        let thread = thread::Builder::new().name((options.name)()).stack_size(options.stack_size);
        thread.spawn(move || {
            let _counted = counted;
            on_start.inspect(|hook| hook());
            body();
            on_stop.inspect(|hook| hook());
        })?;
        Ok(())
    }

    /// Waits until all threads have ended, at most for `patience`.
    pub(crate) fn wait(&self, patience: Option<Duration>) {
        let end = patience.and_then(|patience| Instant::now().checked_add(patience));
        let (count, ended) = &*self.0;
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = match end {
                None => ended.wait(count).unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    ended.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl fmt::Debug for ThreadOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ThreadOptions").field("stack_size", &self.stack_size).finish()
    }
}
