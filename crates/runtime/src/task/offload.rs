//! Work that would hold up a loop: disk, computation, and blocking calls of other libraries.
//!
//! In the block world, the work runs in place, where it holds up no other task. On a loop, the work
//! goes to helper threads, as in Flash's AMPED (Pai et al. 1999). The process's loops share a few
//! helper threads. A helper is made when work waits and no helper is idle.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::panic::Location;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use std::thread::Result as Caught;

use self::shim::{Condvar, Mutex, MutexGuard};
use super::thread;
use crate::drain;
use crate::event_loop::core::Core;
use crate::event_loop::current;
use crate::time;
use crate::visibility::graph;
use crate::visibility::{self, Wait};
use crate::wait::{Ambient, ambient};
use crate::world;
use crate::world::budget::budgeted;

#[cfg(all(test, loom))]
use loom::sync as shim;
#[cfg(not(all(test, loom)))]
use std::sync as shim;

/// The default limit on the helper threads of a process. This many calls keep a disk busy. On a
/// machine with few processors, more helpers would only take turns.
pub const HELPERS: NonZeroUsize = NonZeroUsize::new(4).unwrap();
static MOST: AtomicUsize = AtomicUsize::new(HELPERS.get());
const HELPER_STACK: thread::ThreadStack = thread::ThreadStack::fixed(1 << 20, "a helper thread");

type Job = Box<dyn FnOnce() + Send>;

/// Jobs, and the helper threads that take them.
struct HelperPool {
    helpers: Mutex<Helpers>,
    work: Condvar,
}

struct Helpers {
    jobs: VecDeque<Job>,
    alive: usize,
    idle: usize,
}

impl Helpers {
    const NONE: Self = Self { jobs: VecDeque::new(), alive: 0, idle: 0 };
}

#[cfg(not(all(test, loom)))]
static POOL: HelperPool = HelperPool { helpers: Mutex::new(Helpers::NONE), work: Condvar::new() };
#[cfg(all(test, loom))]
loom::lazy_static! {
    static ref POOL: HelperPool = HelperPool { helpers: Mutex::new(Helpers::NONE), work: Condvar::new() };
}

/// Limits the helper threads of this process. Existing helpers stay.
pub fn limit_helpers(most: NonZeroUsize) {
    MOST.store(most.get(), Ordering::Relaxed);
}

/// Runs `work`, which reads files. On a loop that reads files in place, `work` runs at once.
#[track_caller]
pub(crate) fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = T> + Send {
    graph::arrive("disk", Location::caller());
    async {
        let in_place = |core: Option<&Core>| core.is_some_and(|core| core.options().disk_in_place);
        let result = match current::with_loop(in_place) {
            true => {
                budgeted().await;
                work()
            }
            false => run(work).await,
        };
        graph::depart();
        result
    }
}

/// Runs `work` where it holds up no other task, and returns its result.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::{block_on, task};
///
/// let sum = block_on(task::offload(|| (1..=1000).sum::<u32>()));
/// assert_eq!(sum, 500_500);
/// ```
///
/// # Panics
///
/// With the panic of `work`.
#[track_caller]
pub fn offload<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = T> + Send {
    graph::arrive("offload", Location::caller());
    async {
        let result = run(work).await;
        graph::depart();
        result
    }
}

async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // A staged server also runs the work in place. Each stage has a pool of threads, and work that
    // holds up one thread holds up no other stage. But no time limit ends work in place, and no
    // other wait of the task goes on beside it.
    if current::with_loop(|core| core.is_none()) && ambient() == Ambient::Never {
        budgeted().await;
        return work();
    }
    if let Some(machine) = current::machine() {
        // A simulation has one kernel thread. The work happens at one moment of its time.
        time::sleep(machine.offload_time()).await;
        return work();
    }
    visibility::count(|counters| counters.offloads.add(1));
    let cell = Arc::new(Mutex::new(ResultCell { result: None, waiter: None }));
    let filled = cell.clone();
    submit(Box::new(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        let mut cell = lock(&filled);
        cell.result = Some(result);
        let waiter = cell.waiter.take();
        drop(cell);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }));
    let result = poll_fn(|context| {
        world::wait_until(context, Wait::Offload, None, |context| {
            let mut cell = lock(&cell);
            match cell.result.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    cell.waiter = Some(context.waker().clone());
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

struct ResultCell<T> {
    result: Option<Caught<T>>,
    waiter: Option<Waker>,
}

/// Has a helper thread run `job`, which must not panic. No task waits: the job itself reports its
/// end. Tasks call [`offload`] instead. This function is for other crates' loops.
pub fn submit(job: Box<dyn FnOnce() + Send>) {
    POOL.submit(job, MOST.load(Ordering::Relaxed), || {
        // A helper outlives the server that needs it first.
        drain::within(None, || thread::start(HELPER_STACK, Box::new(help)).is_ok())
    });
}

fn help() {
    loop {
        POOL.next()();
    }
}

impl HelperPool {
    /// Leaves a job to the helpers, of which there are at most `most`. `start` makes a helper, or
    /// reports that it cannot.
    fn submit(&self, job: Job, most: usize, start: impl FnOnce() -> bool) {
        let mut helpers = lock(&self.helpers);
        helpers.jobs.push_back(job);
        if helpers.idle >= helpers.jobs.len() || helpers.alive >= most {
            drop(helpers);
            self.work.notify_one();
            return;
        }
        helpers.alive += 1;
        drop(helpers);
        if start() {
            return;
        }
        let mut helpers = lock(&self.helpers);
        helpers.alive -= 1;
        // Without any helper, holding up the loop is better than never answering. The queue may
        // hold further jobs, which relied on the helper that could not be made.
        while helpers.alive == 0
            && let Some(job) = helpers.jobs.pop_front()
        {
            drop(helpers);
            job();
            helpers = lock(&self.helpers);
        }
    }

    /// The next job, as soon as there is one.
    fn next(&self) -> Job {
        let mut helpers = lock(&self.helpers);
        loop {
            if let Some(job) = helpers.jobs.pop_front() {
                return job;
            }
            helpers.idle += 1;
            helpers = self.work.wait(helpers).unwrap_or_else(PoisonError::into_inner);
            helpers.idle -= 1;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;

    use duality_poller::Kind;

    use super::*;
    use crate::event_loop::{EventLoop, LoopWorld};

    /// Of four jobs that each wait for a second one, two run at a time.
    #[test]
    fn there_are_as_many_helpers_as_were_asked_for() {
        limit_helpers(NonZeroUsize::new(2).unwrap());
        let opened = EventLoop::new(Kind::Epoll.open().unwrap(), LoopWorld::Suspend);
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

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::atomic::AtomicUsize;

    use super::*;

    /// Two threads submit a job each, with a limit on helpers. Both jobs must run. A job without a
    /// helper shows as a deadlock, or in the count.
    fn jobs_are_done(helpers: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let world = Arc::new(World {
                pool: HelperPool { helpers: Mutex::new(Helpers::NONE), work: Condvar::new() },
                refusals: AtomicUsize::new(2 - helpers),
                done: AtomicUsize::new(0),
                threads: Mutex::new(Vec::new()),
            });
            let other = {
                let world = world.clone();
                loom::thread::spawn(move || world.submit())
            };
            world.submit();
            other.join().unwrap();
            loop {
                let thread = world.threads.lock().unwrap().pop();
                let Some(thread) = thread else { break };
                thread.join().unwrap();
            }
            assert_eq!(world.done.load(Ordering::Relaxed), 2);
        });
    }

    struct World {
        pool: HelperPool,
        /// The number of attempts to make a thread that still have to fail.
        refusals: AtomicUsize,
        done: AtomicUsize,
        threads: Mutex<Vec<loom::thread::JoinHandle<()>>>,
    }

    impl World {
        fn submit(self: &Arc<Self>) {
            let world = self.clone();
            let job = Box::new(move || {
                if world.done.fetch_add(1, Ordering::Relaxed) == 1 {
                    // All jobs are done, so a waiting thread may end.
                    for _ in 0..2 {
                        world.pool.submit(Box::new(|| {}), 0, || unreachable!("none is wanted"));
                    }
                }
            });
            self.pool.submit(job, 2, || self.start());
        }

        fn start(self: &Arc<Self>) -> bool {
            let refused =
                self.refusals
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if refused.is_ok() {
                return false;
            }
            let world = self.clone();
            let helper = loom::thread::spawn(move || {
                while world.done.load(Ordering::Relaxed) < 2 {
                    world.pool.next()();
                }
            });
            self.threads.lock().unwrap().push(helper);
            true
        }
    }

    #[test]
    fn loom_jobs_are_done_by_two_helpers() {
        jobs_are_done(2);
    }

    #[test]
    fn loom_jobs_are_done_by_one_helper() {
        jobs_are_done(1);
    }

    #[test]
    fn loom_jobs_are_done_without_helpers() {
        jobs_are_done(0);
    }
}
