//! Work that would hold up a loop: disk, computation, blocking calls of somebody else's.
//!
//! In the block world it runs in place, where it holds up nobody else. On a loop it goes to helper
//! threads, as in Flash's AMPED (Pai et al. 1999): a few kernel threads that the process's loops share,
//! made when work waits and none is idle.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::Result as Caught;

use super::thread;
use crate::visibility::Wait;
use crate::world;

/// The most helper threads that a process makes.
const HELPERS: usize = 4;
const HELPER_STACK: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

struct Helpers {
    jobs: VecDeque<Job>,
    alive: usize,
    idle: usize,
}

static POOL: Mutex<Helpers> = Mutex::new(Helpers { jobs: VecDeque::new(), alive: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

/// Runs `work` where it holds up no other task, and returns what it returns.
///
/// # Panics
///
/// With what `work` panics with.
pub async fn offload<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if world::with_loop(|core| core.is_none()) {
        return work();
    }
    let slot = Arc::new(Mutex::new(Slot { result: None, waiter: None }));
    let filled = slot.clone();
    submit(Box::new(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        let mut slot = lock(&filled);
        slot.result = Some(result);
        let waiter = slot.waiter.take();
        drop(slot);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }));
    let result = poll_fn(|context| {
        world::wait_until(context, Wait::Offload, None, |context| {
            let mut slot = lock(&slot);
            match slot.result.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    slot.waiter = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    })
    .await;
    match result.expect("without a deadline it waits until there is a result") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

struct Slot<T> {
    result: Option<Caught<T>>,
    waiter: Option<Waker>,
}

fn submit(job: Job) {
    let mut pool = lock(&POOL);
    pool.jobs.push_back(job);
    if pool.idle >= pool.jobs.len() || pool.alive == HELPERS {
        drop(pool);
        WORK.notify_one();
        return;
    }
    pool.alive += 1;
    drop(pool);
    if thread::start(HELPER_STACK, Box::new(help)).is_err() {
        let mut pool = lock(&POOL);
        pool.alive -= 1;
        // With no helper at all, holding up the loop is better than never answering.
        let job = if pool.alive == 0 { pool.jobs.pop_front() } else { None };
        drop(pool);
        if let Some(job) = job {
            job();
        }
    }
}

fn help() {
    let mut pool = lock(&POOL);
    loop {
        if let Some(job) = pool.jobs.pop_front() {
            drop(pool);
            job();
            pool = lock(&POOL);
        } else {
            pool.idle += 1;
            pool = WORK.wait(pool).unwrap_or_else(PoisonError::into_inner);
            pool.idle -= 1;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
