//! The pacer: a kernel thread that puts each request into the queue at its due time.
//!
//! The load's own loop has a resolution of a millisecond. At a million requests a second, a
//! thousand may be due in that time, and they would all begin at once. The pacer only sleeps until
//! the next arrival, with a timer slack of a nanosecond, and is late by some tens of microseconds.
//! After the pacer has overslept, it catches up. The pacer skips no arrival, and each arrival keeps
//! its due time.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::arrivals::Schedule;
use crate::due::Queue;
use crate::edges::{EdgeHook, Moment};

/// The wait before another attempt at a full queue, which needs at least this time to empty.
const FULL: Duration = Duration::from_millis(1);

/// The time of a schedule, which stands still while the load does.
#[derive(Clone)]
pub(crate) struct Clock {
    /// The beginning of the schedule. Each halt moves it forward.
    start: Arc<Mutex<Instant>>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Starts the schedule now, and not at the clock's creation.
    pub(crate) fn restart(&self) {
        self.hold(|start| *start = Instant::now());
    }

    /// Stops the clock while `halt` runs.
    fn stopped<T>(&self, halt: impl FnOnce() -> T) -> T {
        self.hold(|start| {
            let before = Instant::now();
            let value = halt();
            *start += before.elapsed();
            value
        })
    }

    fn hold<T>(&self, use_start: impl FnOnce(&mut Instant) -> T) -> T {
        // A panic during a halt ends the load anyway.
        use_start(&mut self.start.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Calls a hook with the clock stopped, so that the observer's work at the window's edges delays no
/// request.
pub(crate) struct StoppedClock<B> {
    pub(crate) clock: Clock,
    pub(crate) hook: B,
}

impl<B: EdgeHook> EdgeHook for StoppedClock<B> {
    fn opened(&mut self) -> Moment {
        self.clock.stopped(|| self.hook.opened())
    }

    fn closed(&mut self) -> Moment {
        self.clock.stopped(|| self.hook.closed())
    }
}

/// The thread, which ends when this value is dropped.
pub(crate) struct Pacer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pacer {
    /// Starts to fill `queue` with the first `count` arrivals of `schedule`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses a thread.
    pub(crate) fn start(
        schedule: Schedule,
        count: u64,
        clock: Clock,
        queue: Arc<Queue>,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("pacer".to_owned()).spawn(move || {
            // If the kernel refuses, sleeps have the usual slack of 50 µs.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            pace(schedule, count, &clock, &queue, &stopped);
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

fn pace(schedule: Schedule, count: u64, clock: &Clock, queue: &Queue, stop: &AtomicBool) {
    let mut arrivals = schedule.zip(0..count).map(|(offset, _)| offset);
    let Some(mut offset) = arrivals.next() else { return };
    while !stop.load(Ordering::Relaxed) {
        // This is under the clock's lock, so that no request becomes due while the load stands
        // still.
        let pause = clock.hold(|start| {
            let Some(due) = start.checked_add(offset) else { return Some(Duration::MAX) };
            let early = due.saturating_duration_since(Instant::now());
            if !early.is_zero() {
                return Some(early);
            }
            (!queue.push(due)).then_some(FULL)
        });
        match pause {
            Some(pause) => thread::park_timeout(pause),
            None => match arrivals.next() {
                Some(next) => offset = next,
                None => return,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::Arrivals;
    use super::*;

    fn waiting(queue: &Queue) -> Vec<Instant> {
        let mut waiting = Vec::new();
        queue.each(|due| waiting.push(due));
        waiting
    }

    #[test]
    fn every_arrival_comes_at_its_time_and_none_before_it() {
        let queue = Arc::new(Queue::new());
        let clock = Clock::new();
        let start = *clock.start.lock().unwrap();
        let schedule = Arrivals::Poisson { rate: 10_000.0 }.schedule(1);
        let mut pacer = Pacer::start(schedule.clone(), 200, clock, queue.clone()).unwrap();
        // The pacer ends by itself after the last arrival.
        pacer.thread.take().unwrap().join().unwrap();
        let expected: Vec<_> = schedule.take(200).map(|offset| start + offset).collect();
        assert!(*expected.last().unwrap() <= Instant::now());
        assert_eq!(waiting(&queue), expected);
    }

    #[test]
    fn a_pacer_that_is_dropped_ends_however_long_it_would_sleep() {
        let arrivals = Arrivals::Constant { rate: 0.001 };
        let (queue, clock) = (Arc::new(Queue::new()), Clock::new());
        drop(Pacer::start(arrivals.schedule(1), u64::MAX, clock, queue.clone()).unwrap());
        assert!(waiting(&queue).len() <= 1);
    }

    #[test]
    fn a_halt_moves_what_is_to_come() {
        let clock = Clock::new();
        let before = *clock.start.lock().unwrap();
        let halt = clock.stopped(|| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
            begun.elapsed()
        });
        assert!(*clock.start.lock().unwrap() - before >= halt);
    }
}
