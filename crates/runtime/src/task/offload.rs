//! Work that would hold up a loop: disk, computation, blocking calls of somebody else's.
//!
//! In the block world it runs in place, where it holds up nobody else. On a loop it goes to helper
//! threads, as in Flash's AMPED (Pai et al. 1999): a few kernel threads that the process's loops share,
//! made when work waits and none is idle.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::Result as Caught;

use super::thread;
use crate::visibility::Wait;
use crate::world;

/// The most helper threads that a process makes, unless it says otherwise: as many calls keep a disk busy,
/// and on a machine of few processors more of them only take turns.
pub const HELPERS: NonZeroUsize = NonZeroUsize::new(4).unwrap();
static MOST: AtomicUsize = AtomicUsize::new(HELPERS.get());
const HELPER_STACK: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

struct Helpers {
    jobs: VecDeque<Job>,
    alive: usize,
    idle: usize,
}

static POOL: Mutex<Helpers> = Mutex::new(Helpers { jobs: VecDeque::new(), alive: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

/// Bounds the helper threads of this process; those that are there stay.
pub fn limit_helpers(most: NonZeroUsize) {
    MOST.store(most.get(), Ordering::Relaxed);
}

/// Runs `work`, which reads files: on a loop that has them read in place, there and then.
pub(crate) async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if world::with_loop(|core| core.is_some_and(|core| core.habits().disk_in_place)) {
        return work();
    }
    offload(work).await
}

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

/// Has a helper thread run `job`, which must not panic. [`offload`] is this for tasks; here nobody waits, and
/// the job itself says when it is done: for loops that are not of this crate.
pub fn submit(job: Box<dyn FnOnce() + Send>) {
    let mut pool = lock(&POOL);
    pool.jobs.push_back(job);
    if pool.idle >= pool.jobs.len() || pool.alive >= MOST.load(Ordering::Relaxed) {
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

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use duality_poller::Kind;

    use super::*;
    use crate::event_loop::{EventLoop, Waiting};

    /// Of four jobs that each wait for a second one, two are at work at a time.
    #[test]
    fn there_are_as_many_helpers_as_were_asked_for() {
        limit_helpers(NonZeroUsize::new(2).unwrap());
        let opened = EventLoop::new(Kind::Epoll.open().unwrap(), Waiting::Suspend);
        opened.unwrap().run(async {
            let (at_work, pair) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
            let jobs: Vec<_> = (0..4)
                .map(|_| {
                    let (at_work, pair) = (at_work.clone(), pair.clone());
                    crate::task::spawn(offload(move || {
                        let before = at_work.fetch_add(1, Ordering::Relaxed);
                        pair.wait();
                        at_work.fetch_sub(1, Ordering::Relaxed);
                        before
                    }))
                    .unwrap()
                })
                .collect();
            for job in jobs {
                assert!(job.await.unwrap() < 2);
            }
        });
    }
}
