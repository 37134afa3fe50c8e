//! Wakes tasks at their times, to some tens of microseconds.
//!
//! ```text
//!   the load's loop                       the alarm (a kernel thread)
//!   a task: until(due) ───── due ───────▶ sleeps until the earliest, and wakes its task
//!           … waits …        ◀─────────── (the loop's own timers are late by up to a millisecond)
//! ```

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use duality_runtime::sync::channel::{Receiver, Sender, bounded};

/// The thread, which ends when this value is dropped.
pub(super) struct Alarm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sleepers: BinaryHeap<Sleep>,
    /// The number of sleeps so far, which orders sleeps with equal times.
    number: u64,
    is_over: bool,
}

/// A task that waits for its time.
struct Sleep {
    at: Instant,
    number: u64,
    wake: Sender<()>,
}

/// Waits for one time after the other, for one task.
pub(super) struct Sleeper {
    shared: Arc<Shared>,
    alarm: Thread,
    wake: Sender<()>,
    woken: Receiver<()>,
}

impl Alarm {
    /// Starts the thread, with the processors and the priority of the calling thread.
    ///
    /// # Errors
    ///
    /// If the kernel refuses a thread.
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::new(State::default()) });
        let own = shared.clone();
        let thread = thread::Builder::new().name("alarm".to_owned()).spawn(move || {
            // If the kernel refuses, sleeps have the usual slack of 50 µs.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            own.serve();
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The waiting end of one task.
    pub(super) fn sleeper(&self) -> Sleeper {
        let (wake, woken) = bounded(1);
        let thread = self.thread.as_ref().expect("it is taken when this is dropped");
        Sleeper { shared: self.shared.clone(), alarm: thread.thread().clone(), wake, woken }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

impl Sleeper {
    /// Waits until `at`.
    pub(super) async fn until(&mut self, at: Instant) {
        if at <= Instant::now() {
            return;
        }
        let is_earliest = {
            let mut state = self.shared.lock();
            let is_earliest = state.sleepers.peek().is_none_or(|first| at < first.at);
            state.number += 1;
            let number = state.number;
            state.sleepers.push(Sleep { at, number, wake: self.wake.clone() });
            is_earliest
        };
        if is_earliest {
            self.alarm.unpark();
        }
        // The sender is this sleeper's own, so it exists.
        self.woken.recv().await;
    }
}

impl Shared {
    fn serve(&self) {
        loop {
            let pause = {
                let mut state = self.lock();
                if state.is_over {
                    return;
                }
                match state.sleepers.peek() {
                    None => Duration::MAX,
                    Some(first) => {
                        let early = first.at.saturating_duration_since(Instant::now());
                        if early.is_zero() {
                            let sleep = state.sleepers.pop().expect("it was looked at");
                            drop(state);
                            // A task that has ended no longer waits.
                            let _ = sleep.wake.try_send(());
                            continue;
                        }
                        early
                    }
                }
            };
            thread::park_timeout(pause);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one push or one pop, so a panic elsewhere leaves the heap whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ord for Sleep {
    /// The earliest time is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Sleep {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sleep {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Sleep {}

#[cfg(test)]
mod tests {
    use duality_runtime::block_on;

    use super::*;

    #[test]
    fn tasks_are_woken_in_the_order_of_their_times_and_never_early() {
        let alarm = Alarm::start().unwrap();
        let begun = Instant::now();
        let (done, ended) = std::sync::mpsc::channel();
        let waiting: Vec<_> = [30, 10, 20]
            .map(|milliseconds| {
                let (mut sleeper, done) = (alarm.sleeper(), done.clone());
                let at = begun + Duration::from_millis(milliseconds);
                thread::spawn(move || {
                    block_on(sleeper.until(at));
                    done.send((milliseconds, Instant::now() >= at)).unwrap();
                })
            })
            .into_iter()
            .collect();
        let mut all: Vec<_> = (0..3).map(|_| ended.recv().unwrap()).collect();
        assert!(all.iter().all(|(_, in_time)| *in_time), "{all:?}");
        all.sort_unstable();
        assert_eq!(all, [(10, true), (20, true), (30, true)]);
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn a_time_that_is_over_is_not_waited_for_and_an_alarm_ends_at_any_time() {
        let alarm = Alarm::start().unwrap();
        block_on(alarm.sleeper().until(Instant::now()));
        let mut late = alarm.sleeper();
        let far = Instant::now() + Duration::from_secs(1000);
        let waiting = thread::spawn(move || {
            block_on(duality_runtime::time::timeout(
                Duration::from_millis(5),
                std::pin::pin!(late.until(far)),
            ))
            .is_err()
        });
        assert!(waiting.join().unwrap());
        drop(alarm);
    }
}
