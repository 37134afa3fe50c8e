//! The costs between tasks: start, take turns, lock, notify.
//!
//! Each function does its operation `count` times and returns the time. The peers' programs
//! (`peers/`) do the same operations under the same names.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use duality_runtime::sync::{Mutex, Notify};
use duality_runtime::task;

use crate::world::run;
use crate::{Reading, Unit, World};

/// Starts and joins empty tasks, one after the other.
pub(crate) async fn spawn(count: u64) -> io::Result<Duration> {
    let start = Instant::now();
    for _ in 0..count {
        task::spawn(async {})?.await.map_err(io::Error::other)?;
    }
    Ok(start.elapsed())
}

/// Two tasks that wake each other: the smallest possible wake and wait.
pub(crate) async fn switch(count: u64) -> io::Result<Duration> {
    let turns = Arc::new(Turns::default());
    together(2, |me, gate| {
        let turns = turns.clone();
        async move {
            gate.opened().await;
            let other = turns.meet(me).await;
            for _ in 0..count {
                // In any world, a wake may be spurious.
                while turns.whose.load(Ordering::Acquire) != me {
                    task::woken().await;
                }
                turns.whose.store(1 - me, Ordering::Release);
                other.wake_by_ref();
            }
            Instant::now()
        }
    })
    .await
}

/// The turn of two tasks: the task that has it, and the wakers of both.
#[derive(Default)]
struct Turns {
    whose: AtomicUsize,
    wakers: [OnceLock<Waker>; 2],
}

impl Turns {
    /// Publishes this task's waker and waits for the peer's.
    async fn meet(&self, me: usize) -> Waker {
        poll_fn(|context| {
            self.wakers[me].get_or_init(|| context.waker().clone());
            Poll::Ready(())
        })
        .await;
        loop {
            if let Some(other) = self.wakers[1 - me].get() {
                return other.clone();
            }
            task::yield_now().await;
        }
    }
}

/// `count` yields in all, by `tasks` tasks that only yield.
pub(crate) fn yields(world: World, tasks: u64, count: u64) -> io::Result<Reading> {
    let each = count.div_ceil(tasks);
    let elapsed = run(
        world,
        together(tasks as usize, move |_, gate| async move {
            gate.opened().await;
            for _ in 0..each {
                task::yield_now().await;
            }
            Instant::now()
        }),
    )??;
    Ok(Reading::new(each * tasks, elapsed.as_nanos(), Unit::Nanoseconds))
}

/// Round trips of two tasks that only take turns. The tasks yield, since two yields are cheaper
/// than two wakes in all worlds.
pub(crate) fn alternate(world: World, count: u64) -> io::Result<Reading> {
    let yields = yields(world, 2, 2 * count)?;
    Ok(Reading::new(count, yields.total.into(), Unit::Nanoseconds))
}

/// A lock that no other task wants.
pub(crate) async fn lock(count: u64) -> io::Result<Duration> {
    let number = Mutex::new(0u64);
    let start = Instant::now();
    for _ in 0..count {
        *std::hint::black_box(&number).lock().await += 1;
    }
    Ok(start.elapsed())
}

/// Two tasks that each yield while they hold the lock, so that the other task always finds the lock
/// taken. Each yields again after the unlock, so that the other gets the lock.
pub(crate) async fn contended(count: u64) -> io::Result<Duration> {
    let number = Arc::new(Mutex::new(0u64));
    together(2, |me, gate| {
        let number = number.clone();
        async move {
            gate.opened().await;
            for _ in 0..(count + me as u64) / 2 {
                let mut held = number.lock().await;
                task::yield_now().await;
                *held += 1;
                drop(held);
                task::yield_now().await;
            }
            Instant::now()
        }
    })
    .await
}

/// Two tasks that notify each other by [`Notify`], the condition variable of this runtime.
pub(crate) async fn condition(count: u64) -> io::Result<Duration> {
    let conditions = Arc::new([Notify::new(), Notify::new()]);
    together(2, |me, gate| {
        let conditions = conditions.clone();
        async move {
            gate.opened().await;
            for _ in 0..count {
                if me == 0 {
                    conditions[1].notify_one();
                    conditions[0].notified().await;
                } else {
                    conditions[1].notified().await;
                    conditions[0].notify_one();
                }
            }
            Instant::now()
        }
    })
    .await
}

/// Gives work to a helper thread and waits for the result. The block world has no helpers, so it
/// does the work in place.
pub(crate) async fn offload(count: u64) -> io::Result<Duration> {
    let start = Instant::now();
    for number in 0..count {
        task::offload(move || std::hint::black_box(number)).await;
    }
    Ok(start.elapsed())
}

/// Runs `count` tasks, each made by `body` from its number. Returns the time from the start of all
/// tasks to the end of the last task. A task begins by waiting at the gate, and gives the time at
/// its end. A wrapper around the task could do both, but would slow each turn of the task.
async fn together<F>(
    count: usize,
    mut body: impl FnMut(usize, Arc<Gate>) -> F,
) -> io::Result<Duration>
where
    F: Future<Output = Instant> + Send + 'static,
{
    let gate = Arc::new(Gate::default());
    let mut running = Vec::with_capacity(count);
    for number in 0..count {
        running.push(task::spawn(body(number, gate.clone()))?);
    }
    while gate.before.load(Ordering::Relaxed) < count {
        task::yield_now().await;
    }
    let start = Instant::now();
    gate.is_open.store(true, Ordering::Release);
    let mut elapsed = Duration::ZERO;
    for task in running {
        let end = task.await.map_err(io::Error::other)?;
        elapsed = elapsed.max(end.saturating_duration_since(start));
    }
    Ok(elapsed)
}

/// A gate at which tasks wait until all have started.
#[derive(Default)]
struct Gate {
    before: AtomicUsize,
    is_open: AtomicBool,
}

impl Gate {
    async fn opened(&self) {
        self.before.fetch_add(1, Ordering::Relaxed);
        while !self.is_open.load(Ordering::Acquire) {
            task::yield_now().await;
        }
    }
}
