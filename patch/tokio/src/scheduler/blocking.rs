//! Threads for work that blocks: as many as work needs, up to a limit. An idle thread ends after a
//! while.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::threads::{ThreadCount, ThreadOptions};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads that run blocking work.
pub(crate) struct Blocking {
    state: Mutex<State>,
    work: Condvar,
    most: usize,
    keep_alive: Duration,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    alive: usize,
    idle: usize,
    is_closed: bool,
}

impl Blocking {
    pub(crate) fn new(most: usize, keep_alive: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), work: Condvar::new(), most, keep_alive })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread run `job`. Drops the job if the runtime has ended.
    ///
    /// # Errors
    ///
    /// If no thread is there to run it, and none can be made.
    pub(crate) fn run(
        self: &Arc<Self>,
        job: Job,
        threads: &ThreadCount,
        options: &ThreadOptions,
        enter: impl FnOnce(&mut dyn FnMut()) + Send + 'static,
    ) -> io::Result<()> {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            drop(job);
            return Ok(());
        }
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            self.work.notify_one();
            return Ok(());
        }
        if state.alive >= self.most {
            return Ok(());
        }
        state.alive += 1;
        drop(state);
        let pool = self.clone();
        let started = threads.start(options, move || enter(&mut || pool.serve()));
        if let Err(error) = started {
            let mut state = self.lock();
            state.alive -= 1;
            // The threads that are there take the job later.
            let unrun = if state.alive == 0 { state.jobs.pop_back() } else { None };
            drop(state);
            if unrun.is_some() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs jobs, until none comes for a while.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.lock();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let waited = self.work.wait_timeout(state, self.keep_alive);
            let (again, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if timed_out.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.alive -= 1;
    }

    /// Takes no further job. The threads end once they have finished all jobs, as with tokio.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
    }
}
