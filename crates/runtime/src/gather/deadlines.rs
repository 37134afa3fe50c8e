//! Deadlines of gathered waits. A task may have any number of them.

use std::collections::BTreeMap;
use std::mem;
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
/// the deadlines is woken. Equal deadlines pass in the order in which they were set: addresses
/// decide nothing.
#[derive(Default)]
pub(crate) struct Deadlines {
    queue: BTreeMap<Place, (Key, Option<Waker>)>,
    of: BTreeMap<Key, Place>,
    /// How many deadlines have been set.
    count: u64,
}

/// When a deadline passes, and how many were set before it.
type Place = (Instant, u64);

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
        let replaced = self.forget(key);
        self.insert(key, deadline, waker);
        replaced
    }

    fn insert(&mut self, key: Key, deadline: Instant, waker: Option<Waker>) {
        let place = (deadline, self.count);
        self.count += 1;
        self.of.insert(key, place);
        self.queue.insert(place, (key, waker));
    }

    /// Returns the waker, like [`set`](Deadlines::set).
    #[must_use]
    pub(crate) fn forget(&mut self, key: Key) -> Option<Waker> {
        let place = self.of.remove(&key)?;
        self.queue.remove(&place)?.1
    }

    /// Moves a deadline, and keeps its waker. Returns whether there was one.
    pub(crate) fn move_to(&mut self, key: Key, deadline: Instant) -> bool {
        let Some(place) = self.of.get(&key) else { return false };
        let waker = self.queue.remove(place).and_then(|(_, waker)| waker);
        self.insert(key, deadline, waker);
        true
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|(&(deadline, _), _)| deadline)
    }

    /// Takes out all deadlines, and adds their wakers to `wakers`.
    pub(crate) fn take_all(&mut self, wakers: &mut Vec<Waker>) {
        self.of.clear();
        wakers.extend(mem::take(&mut self.queue).into_values().filter_map(|(_, waker)| waker));
    }

    /// Takes out the deadlines that are due, and adds their wakers to `woken`.
    pub(crate) fn expire(&mut self, now: Instant, woken: &mut Vec<Waker>) {
        while let Some(first) = self.queue.first_entry() {
            if first.key().0 > now {
                break;
            }
            let (key, waker) = first.remove();
            woken.extend(waker);
            self.of.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::task::Wake;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Notes its number when it is woken.
    struct Noting(usize, Arc<Mutex<Vec<usize>>>);

    impl Wake for Noting {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn equal_deadlines_pass_in_the_order_in_which_they_were_set() {
        let now = Instant::now();
        let (mut deadlines, noted) = (Deadlines::default(), Arc::default());
        for (number, address) in [30, 10, 20, 40].into_iter().enumerate() {
            let waker = Waker::from(Arc::new(Noting(number, Arc::clone(&noted))));
            assert!(deadlines.set(Key::Future(address), now, Some(waker)).is_none());
        }
        assert!(deadlines.move_to(Key::Future(10), now));
        let mut woken = Vec::new();
        deadlines.expire(now, &mut woken);
        woken.into_iter().for_each(Waker::wake);
        assert_eq!(*noted.lock().unwrap(), [0, 2, 3, 1]);
    }

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
