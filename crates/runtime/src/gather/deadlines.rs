//! Deadlines of gathered waits. A task may have any number of them.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Instant;

/// The owner of a deadline. Of two deadlines with the same key, the later one replaces the earlier
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// The address of a future that waits, which is pinned.
    Future(usize),
    /// An operation on the descriptor with this number, and its direction.
    Descriptor(i32, u8),
}

/// Deadlines, each with the waker to use when it passes. Without a waker, the task that waits for
/// the deadlines is woken.
#[derive(Default)]
pub(crate) struct Deadlines {
    queue: BTreeMap<(Instant, Key), Option<Waker>>,
    of: BTreeMap<Key, Instant>,
}

impl Deadlines {
    /// Returns the former waker. Drop it outside of all locks and borrows, because it may be the
    /// last owner of a future.
    #[must_use]
    pub(crate) fn set(
        &mut self,
        key: Key,
        deadline: Instant,
        waker: Option<Waker>,
    ) -> Option<Waker> {
        let before = self.of.insert(key, deadline);
        let replaced = before.and_then(|before| self.queue.remove(&(before, key)));
        self.queue.insert((deadline, key), waker);
        replaced.flatten()
    }

    /// Returns the waker, like [`set`](Deadlines::set).
    #[must_use]
    pub(crate) fn forget(&mut self, key: Key) -> Option<Waker> {
        let deadline = self.of.remove(&key)?;
        self.queue.remove(&(deadline, key)).flatten()
    }

    /// Moves a deadline, and keeps its waker. Returns whether there was one.
    pub(crate) fn move_to(&mut self, key: Key, deadline: Instant) -> bool {
        let Some(before) = self.of.get_mut(&key) else { return false };
        let waker = self.queue.remove(&(*before, key)).flatten();
        *before = deadline;
        self.queue.insert((deadline, key), waker);
        true
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|(&(deadline, _), _)| deadline)
    }

    /// Takes out the deadlines that are due, and adds their wakers to `woken`.
    pub(crate) fn expire(&mut self, now: Instant, woken: &mut Vec<Waker>) {
        while let Some(first) = self.queue.first_entry() {
            let &(deadline, key) = first.key();
            if deadline > now {
                break;
            }
            woken.extend(first.remove());
            self.of.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_as_a_list_would_have_them(
            steps in proptest::collection::vec((0usize..6, 0u64..20, 0u8..5), 0..60)
        ) {
            let start = Instant::now();
            let at = |moment| start + Duration::from_nanos(moment);
            let mut deadlines = Deadlines::default();
            let mut list: Vec<(usize, u64)> = Vec::new();
            for (number, moment, what) in steps {
                let key = Key::Future(number);
                match what {
                    0 => {
                        deadlines.expire(at(moment), &mut Vec::new());
                        list.retain(|&(_, other)| other > moment);
                    }
                    1 => {
                        let _ = deadlines.forget(key);
                        list.retain(|&(other, _)| other != number);
                    }
                    2 => {
                        let moved = list.iter_mut().find(|&&mut (other, _)| other == number);
                        prop_assert_eq!(deadlines.move_to(key, at(moment)), moved.is_some());
                        if let Some((_, other)) = moved {
                            *other = moment;
                        }
                    }
                    _ => {
                        let _ = deadlines.set(key, at(moment), None);
                        list.retain(|&(other, _)| other != number);
                        list.push((number, moment));
                    }
                }
                let first = list.iter().map(|&(_, moment)| at(moment)).min();
                prop_assert_eq!(deadlines.next(), first);
                prop_assert_eq!(deadlines.queue.len(), list.len());
                prop_assert_eq!(deadlines.of.len(), list.len());
            }
        }
    }
}
