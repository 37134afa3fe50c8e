//! Things that wait to be used again, such as connections, each for a limited time.
//!
//! ```text
//!   put ─▶ ┌─────────────────────────┐ ─▶ take: the one that was used last
//!          │ things, the oldest first│
//!          └─────────────────────────┘ ─▶ the keeper: drops those for which the time is over
//! ```
//!
//! The keeper is a task that lives as long as something waits. Without it, things would stay after
//! the last client has left: their peers close them, and each keeps its descriptor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use duality_runtime::task;
use duality_runtime::time::{self, Duration, Instant, sleep};

/// A bounded number of things.
#[derive(Debug)]
pub(crate) struct Idle<T> {
    waiting: Mutex<Waiting<T>>,
    most: usize,
    longest: Option<Duration>,
}

#[derive(Debug)]
struct Waiting<T> {
    /// With the time since when each waits. The one that was used last is last.
    things: Vec<(T, Instant)>,
    has_keeper: bool,
}

impl<T: Send + 'static> Idle<T> {
    /// Room for at most `most` things, none of which waits for longer than `longest`, if that
    /// is given.
    pub(crate) fn new(most: usize, longest: Option<Duration>) -> Arc<Self> {
        let waiting = Mutex::new(Waiting { things: Vec::new(), has_keeper: false });
        Arc::new(Self { waiting, most, longest })
    }

    /// Takes the thing that was put in last among those that suit.
    pub(crate) fn take(&self, suits: impl Fn(&T) -> bool) -> Option<T> {
        loop {
            let mut waiting = self.waiting();
            let at = waiting.things.iter().rposition(|(thing, _)| suits(thing))?;
            let (thing, since) = waiting.things.remove(at);
            drop(waiting);
            // The keeper may be late.
            if self.longest.is_none_or(|longest| time::since(since) <= longest) {
                return Some(thing);
            }
        }
    }

    /// Puts a thing in. The oldest one makes room.
    pub(crate) fn put(self: &Arc<Self>, thing: T) {
        let mut waiting = self.waiting();
        let oldest = (waiting.things.len() >= self.most).then(|| waiting.things.remove(0));
        waiting.things.push((thing, time::now()));
        let keeper = self.longest.filter(|_| !std::mem::replace(&mut waiting.has_keeper, true));
        drop(waiting);
        // Closing takes a system call, which needs no lock.
        drop(oldest);
        if let Some(longest) = keeper
            && task::spawn(keep(Arc::downgrade(self), longest)).is_err()
        {
            // There is no room for a task. The next put tries again.
            self.waiting().has_keeper = false;
        }
    }

    /// Takes what has waited for too long, and tells the pause until something else will have.
    /// `None` if nothing is left.
    fn take_old(&self, longest: Duration) -> (Vec<(T, Instant)>, Option<Duration>) {
        let mut waiting = self.waiting();
        let now = time::now();
        let waited = |since: Instant| now.saturating_duration_since(since);
        let count = waiting.things.partition_point(|(_, since)| waited(*since) > longest);
        let old = waiting.things.drain(..count).collect();
        let next = waiting.things.first();
        // Something may wait for exactly the longest time, and be used until it is over.
        let pause = next
            .map(|(_, since)| longest.saturating_sub(waited(*since)) + Duration::from_millis(1));
        waiting.has_keeper = pause.is_some();
        (old, pause)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        // No code can panic while it holds the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops what has waited for too long, until nothing waits.
async fn keep<T: Send + 'static>(idle: Weak<Idle<T>>, longest: Duration) {
    let mut pause = longest;
    loop {
        sleep(pause).await;
        let Some(idle) = idle.upgrade() else { return };
        let (old, next) = idle.take_old(longest);
        drop(old);
        match next {
            Some(next) => pause = next,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use duality_runtime::block_on;

    use super::*;

    #[test]
    fn the_last_one_that_suits_is_taken_and_the_oldest_makes_room() {
        let idle = Idle::new(3, Some(Duration::from_secs(60)));
        for thing in 1..=4 {
            idle.put(thing);
        }
        assert_eq!(idle.take(|thing| thing % 2 == 0), Some(4));
        assert_eq!(idle.take(|thing| *thing == 1), None);
        assert_eq!(idle.take(|_| true), Some(3));
        assert_eq!(idle.take(|_| true), Some(2));
        assert_eq!(idle.take(|_| true), None);
    }

    #[test]
    fn what_waits_for_too_long_is_dropped_though_nothing_is_asked_for() {
        let idle = Idle::new(3, Some(Duration::from_millis(20)));
        let thing = Arc::new(());
        idle.put(thing.clone());
        block_on(async {
            while Arc::strong_count(&thing) > 1 {
                sleep(Duration::from_millis(1)).await;
            }
        });
        // The keeper has ended, and the next thing gets another one.
        idle.put(thing.clone());
        block_on(async {
            while Arc::strong_count(&thing) > 1 {
                sleep(Duration::from_millis(1)).await;
            }
        });
    }
}
