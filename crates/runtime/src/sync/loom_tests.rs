//! A semaphore's permits and its list of waiters under loom: the same files, with loom's atomics.
//! loom's atomics cannot be made in a constant.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex, atomic};
use loom::thread;

use self::atomic::AtomicUsize;
use self::permits::Permits;
use self::waiter_list::{WaiterList, WaiterState};

#[path = "permits.rs"]
mod permits;
#[path = "waiter_list.rs"]
mod waiter_list;

/// A lock of one permit: the algorithm of [`Semaphore`](super::Semaphore), with threads that park
/// as its waiters.
struct Lock {
    permits: Permits,
    waiters: Mutex<WaiterList<thread::Thread>>,
    value: UnsafeCell<u32>,
}

impl Lock {
    fn new() -> Arc<Self> {
        let permits = Permits::new(AtomicUsize::new(Permits::word(1)));
        Arc::new(Self {
            permits,
            waiters: Mutex::new(WaiterList::new()),
            value: UnsafeCell::new(0),
        })
    }

    /// Adds one to the value.
    fn add(&self) {
        if !self.permits.take() {
            self.wait();
        }
        self.use_it();
    }

    /// Takes a permit that no task waits for. Returns `false` if there is none.
    fn try_add(&self) -> bool {
        let taken = self.permits.take()
            || self.permits.count() > 0 && {
                let waiters = self.waiters.lock().unwrap();
                !waiters.has_waiting() && self.permits.take_alone()
            };
        if taken {
            self.use_it();
        }
        taken
    }

    /// Takes a permit, but gives up at once if it would wait. Returns `false` if it gave up.
    fn add_or_give_up(&self) -> bool {
        if !self.permits.take() {
            let mut waiters = self.waiters.lock().unwrap();
            if waiters.has_waiting() || !self.permits.take_or_wait() {
                let ticket = waiters.queue(None, &thread::current());
                drop(waiters);
                self.give_up(ticket);
                return false;
            }
        }
        self.use_it();
        true
    }

    fn use_it(&self) {
        // SAFETY: the permit is the only one. loom would find another thread that reaches the
        // value.
        self.value.with_mut(|value| unsafe { *value += 1 });
        if self.permits.give_back() {
            let mut waiters = self.waiters.lock().unwrap();
            if !waiters.has_waiting() {
                self.permits.nothing_waits();
            } else if self.permits.take_for_waiter() {
                hand_over(&mut waiters);
            }
        }
    }

    fn wait(&self) {
        let mut waiters = self.waiters.lock().unwrap();
        if !waiters.has_waiting() && self.permits.take_or_wait() {
            return;
        }
        let ticket = waiters.queue(None, &thread::current());
        while !waiters.is_handed(ticket) {
            drop(waiters);
            thread::park();
            waiters = self.waiters.lock().unwrap();
        }
        assert_eq!(waiters.leave(ticket), WaiterState::Handed);
    }

    fn give_up(&self, ticket: waiter_list::Ticket) {
        let mut waiters = self.waiters.lock().unwrap();
        if waiters.leave(ticket) == WaiterState::Handed {
            if waiters.has_waiting() {
                hand_over(&mut waiters);
            } else {
                self.permits.give_back();
            }
        }
    }
}

fn hand_over(waiters: &mut WaiterList<thread::Thread>) {
    waiters.hand().expect("one waits").unpark();
}

/// The work of a thread of the model. Returns true if it added a permit.
type Act = fn(&Lock) -> bool;

fn add(lock: &Lock) -> bool {
    lock.add();
    true
}

/// One thread at a time gets the permit, and each gets it once. Otherwise loom finds a thread that
/// waits for ever.
fn model(acts: &'static [Act]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let lock = Lock::new();
        let others = acts[1..].iter().map(|act| {
            let lock = lock.clone();
            thread::spawn(move || act(&lock))
        });
        let others: Vec<_> = others.collect();
        let own = acts[0](&lock);
        let others = others.into_iter().map(|other| other.join().unwrap());
        let added = others.fold(u32::from(own), |added, other| added + u32::from(other));
        // SAFETY: the other threads have ended.
        lock.value.with(|value| assert_eq!(unsafe { *value }, added));
        // A flag that was left up must not hide the permit.
        assert_eq!(lock.permits.count(), 1);
        assert!(lock.try_add());
    });
}

#[test]
fn loom_two_that_want_the_permit_have_it() {
    model(&[add, add]);
}

#[test]
fn loom_three_that_want_the_permit_have_it() {
    model(&[add, add, add]);
}

#[test]
fn loom_one_that_gives_up_passes_the_permit_on() {
    model(&[add, Lock::add_or_give_up, add]);
}

#[test]
fn loom_one_that_tries_takes_no_permit_of_a_waiter() {
    model(&[add, Lock::try_add, add]);
}

/// A permit is given back while one thread waits and another tries to take it.
#[test]
fn loom_a_newcomer_takes_nothing_of_a_waiter() {
    loom::model(|| {
        let lock = Lock::new();
        assert!(lock.permits.take());
        assert!(!lock.permits.take_or_wait());
        let ticket = lock.waiters.lock().unwrap().queue(None, &thread::current());
        let newcomer = {
            let lock = lock.clone();
            thread::spawn(move || lock.try_add())
        };
        lock.use_it();
        assert!(!newcomer.join().unwrap(), "the one that waits has waited longer");
        assert!(lock.waiters.lock().unwrap().is_handed(ticket));
    });
}
