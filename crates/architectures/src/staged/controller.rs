//! SEDA's controllers: how many threads a stage has, and how many events a thread takes at a time.
//!
//! ```text
//!   every 100 ms, for each stage:
//!     queue longer than LONG and no shorter than at the last look? ──▶ one thread more
//!       (idle threads end by themselves)
//!     executed since the last look ──▶ batch: smaller while the rate holds, larger when it falls
//! ```
//!
//! Source: Welsh, Culler, Brewer 2001, section 4.2. Their controller looks every two seconds and
//! ends idle threads after five. Our intervals are shorter, because processors are some twenty
//! times as fast.

use std::collections::HashMap;
use std::sync::PoisonError;

use duality_runtime::locks::{Condvar, Mutex};
use duality_runtime::time::{self, Duration};

use super::Stages;
use super::stage::{LARGEST_BATCH, Stage};

/// If a queue is longer than this, its pool grows.
const LONG: usize = 16;
/// The weight of a new rate in the average.
const WEIGHT: f64 = 0.5;
/// The rate holds while it is at least this part of the best rate.
const HOLDS: f64 = 0.95;
/// A rate below this part of the best rate means another load, so the best rate is forgotten.
const OTHER_LOAD: f64 = 0.5;

/// Looks at all stages at each interval.
pub(super) struct Controller {
    interval: Duration,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
}

impl Controller {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, is_stopped: Mutex::new(false), stopped: Condvar::new() }
    }

    /// Controls until it is stopped.
    pub(super) fn run(&self, stages: &Stages) {
        let mut known: HashMap<*const Stage, Batching> = HashMap::new();
        let mut before = time::now();
        while !self.pause() {
            let now = time::now();
            let elapsed = now - before;
            before = now;
            for stage in stages.iter() {
                let length = stage.length();
                let batching = known
                    .entry(std::sync::Arc::as_ptr(stage))
                    .or_insert_with(|| Batching::new(stage.executed()));
                if length > LONG || (length > 0 && stage.has_no_thread()) {
                    stages.add_thread(stage);
                }
                stage.set_batch(batching.look(stage.executed(), elapsed, stage.batch()));
            }
        }
    }

    /// Waits for one interval. True if the controller has been stopped.
    fn pause(&self) -> bool {
        let is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited =
            self.stopped.wait_timeout_while(is_stopped, self.interval, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }
}

/// The batching controller's data about a stage.
struct Batching {
    executed: u64,
    /// Events per second: the average, and the highest average under the present load.
    rate: f64,
    best: f64,
}

impl Batching {
    fn new(executed: u64) -> Self {
        Self { executed, rate: 0.0, best: 0.0 }
    }

    /// The next batch, after an interval with `batch`.
    ///
    /// The batch shrinks as long as the rate holds. A small batch leaves events to idle threads,
    /// and answers the first events sooner. A large batch takes the queue's lock less often.
    fn look(&mut self, executed: u64, elapsed: Duration, batch: usize) -> usize {
        let done = executed - std::mem::replace(&mut self.executed, executed);
        let rate = done as f64 / elapsed.as_secs_f64();
        self.rate += WEIGHT * (rate - self.rate);
        if self.rate < OTHER_LOAD * self.best {
            self.best = self.rate;
            return LARGEST_BATCH;
        }
        self.best = self.best.max(self.rate);
        if self.rate >= HOLDS * self.best {
            batch - batch.div_ceil(8)
        } else {
            batch + batch.div_ceil(4)
        }
        .clamp(1, LARGEST_BATCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One stage has a rate that does not depend on the batch. The rate of the other stage falls
    /// with batches below 8.
    #[test]
    fn the_batch_shrinks_for_as_long_as_the_rate_holds() {
        let interval = Duration::from_millis(100);
        let settle = |rate: &dyn Fn(usize) -> u64| {
            let (mut batching, mut executed, mut batch) = (Batching::new(0), 0, LARGEST_BATCH);
            let mut seen = Vec::new();
            for _ in 0..200 {
                executed += rate(batch);
                batch = batching.look(executed, interval, batch);
                seen.push(batch);
            }
            seen
        };
        assert_eq!(settle(&|_| 1000).last(), Some(&1));
        let seen = settle(&|batch| if batch < 8 { 600 } else { 1000 });
        let mean = seen[100..].iter().sum::<usize>() as f64 / 100.0;
        assert!((5.0..20.0).contains(&mean), "{mean}");
    }

    #[test]
    fn another_load_begins_with_the_largest_batch() {
        let interval = Duration::from_millis(100);
        let mut batching = Batching::new(0);
        let (mut executed, mut batch) = (0, LARGEST_BATCH);
        for _ in 0..100 {
            executed += 1000;
            batch = batching.look(executed, interval, batch);
        }
        assert_eq!(batch, 1);
        let mut largest = 0;
        for _ in 0..5 {
            executed += 10;
            batch = batching.look(executed, interval, batch);
            largest = largest.max(batch);
        }
        assert_eq!(largest, LARGEST_BATCH);
    }
}
