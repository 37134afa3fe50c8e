//! Whom the synchronisation primitives wake, whatever is begun, looked at, given up and told, and in whatever order.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use duality_poller::Kind;
use duality_runtime::block_on;
use duality_runtime::event_loop::{EventLoop, Waiting};
use duality_runtime::sync::{Mutex, Notify, Permit, Semaphore};
use duality_runtime::time::{Duration, timeout};
use proptest::prelude::*;
use proptest::sample::Index;

/// Long enough never to pass in a test that works.
const EVER: Duration = Duration::from_secs(20);

/// What happens next, to one of those that wait.
#[derive(Clone, Debug)]
enum Step {
    Begin,
    /// Also without having been woken: a wake may be spurious.
    Poll(Index),
    GiveUp(Index),
    /// Gives back a permit, or notifies one.
    Tell,
    /// Takes a permit without waiting, or notifies all.
    Other,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::Begin),
        4 => any::<Index>().prop_map(Step::Poll),
        1 => any::<Index>().prop_map(Step::GiveUp),
        2 => Just(Step::Tell),
        1 => Just(Step::Other),
    ];
    prop::collection::vec(step, 0..60)
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        assert!(!self.0.swap(true, Ordering::Relaxed), "woken twice for one place in the queue");
    }
}

/// One that waits, or has not begun to.
struct Waiter<'a, R> {
    number: usize,
    future: Pin<Box<dyn Future<Output = R> + 'a>>,
    /// Since it was polled last.
    woken: Arc<Woken>,
    has_waited: bool,
}

/// Those that wait, and the queue as it should be.
struct Waiters<'a, R> {
    all: Vec<Waiter<'a, R>>,
    queue: VecDeque<usize>,
    begun: usize,
}

impl<'a, R> Waiters<'a, R> {
    fn new() -> Self {
        Self { all: Vec::new(), queue: VecDeque::new(), begun: 0 }
    }

    fn begin(&mut self, future: impl Future<Output = R> + 'a) {
        let (number, woken) = (self.begun, Arc::default());
        self.all.push(Waiter { number, future: Box::pin(future), woken, has_waited: false });
        self.begun += 1;
    }

    fn find(&self, index: Index) -> Option<usize> {
        (!self.all.is_empty()).then(|| index.index(self.all.len()))
    }

    /// Polls one, which is to end as `ends` says.
    fn poll(&mut self, index: usize, ends: bool) -> Option<R> {
        let Waiter { number, future, woken, has_waited } = &mut self.all[index];
        woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(woken.clone());
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(polled.is_ready(), ends);
        match polled {
            Poll::Ready(value) => {
                self.queue.retain(|queued| queued != number);
                self.all.remove(index);
                Some(value)
            }
            Poll::Pending => {
                *has_waited = true;
                if !self.queue.contains(number) {
                    self.queue.push_back(*number);
                }
                None
            }
        }
    }

    fn give_up(&mut self, index: usize) {
        let waiter = self.all.remove(index);
        let queued = self.queue.len();
        self.queue.retain(|number| *number != waiter.number);
        let was_woken = waiter.has_waited && self.queue.len() == queued;
        drop(waiter);
        if was_woken {
            self.one_is_woken();
        }
    }

    fn one_is_woken(&mut self) {
        if let Some(number) = self.queue.pop_front() {
            let waiter = self.all.iter().find(|waiter| waiter.number == number).unwrap();
            assert!(waiter.woken.0.load(Ordering::Relaxed), "the one that has waited longest");
        }
    }

    /// Who has waited and is not in the queue has been woken, and nobody else.
    fn check(&self) {
        for Waiter { number, woken, has_waited, .. } in &self.all {
            let is_woken = *has_waited && !self.queue.contains(number);
            assert_eq!(woken.0.load(Ordering::Relaxed), is_woken);
        }
    }
}

fn semaphore(permits: usize, steps: &[Step]) {
    let semaphore = Semaphore::new(permits);
    let mut waiters = Waiters::<Permit<'_>>::new();
    let mut taken = Vec::new();
    for step in steps {
        let left = permits - taken.len();
        match step {
            Step::Begin => waiters.begin(semaphore.acquire()),
            Step::Poll(index) => {
                if let Some(index) = waiters.find(*index) {
                    taken.extend(waiters.poll(index, left > 0));
                }
            }
            Step::GiveUp(index) => {
                if let Some(index) = waiters.find(*index) {
                    waiters.give_up(index);
                }
            }
            Step::Tell => {
                if taken.pop().is_some() {
                    waiters.one_is_woken();
                }
            }
            Step::Other => {
                let permit = semaphore.try_acquire();
                assert_eq!(permit.is_some(), left > 0);
                taken.extend(permit);
            }
        }
        waiters.check();
        assert_eq!(semaphore.available(), permits - taken.len());
    }
}

fn notify(steps: &[Step]) {
    let notify = Notify::new();
    let mut waiters = Waiters::<()>::new();
    // Of each that has begun: how often all had been told before.
    let mut seen = Vec::new();
    let (mut kept, mut broadcasts) = (0usize, 0);
    for step in steps {
        match step {
            Step::Begin => {
                waiters.begin(notify.notified());
                seen.push(broadcasts);
            }
            Step::Poll(index) => {
                if let Some(index) = waiters.find(*index) {
                    let all = seen[waiters.all[index].number] != broadcasts;
                    waiters.poll(index, kept > 0 || all);
                    kept = kept.saturating_sub(1);
                }
            }
            Step::GiveUp(index) => {
                if let Some(index) = waiters.find(*index) {
                    waiters.give_up(index);
                }
            }
            Step::Tell => {
                notify.notify_one();
                kept = if waiters.queue.is_empty() { kept.max(1) } else { kept + 1 };
                waiters.one_is_woken();
            }
            Step::Other => {
                notify.notify_waiters();
                broadcasts += 1;
                waiters.queue.clear();
            }
        }
        waiters.check();
    }
}

/// Where a future that must wait says so.
fn on_a_loop(body: impl FnOnce() + 'static) {
    let opened = EventLoop::new(Kind::Poll.open().unwrap(), Waiting::Suspend);
    opened.unwrap().run(async { body() });
}

proptest! {
    #[test]
    fn a_semaphore_wakes_who_has_waited_longest(permits in 0usize..4, steps in steps()) {
        on_a_loop(move || semaphore(permits, &steps));
    }

    #[test]
    fn a_notification_reaches_whom_it_should(steps in steps()) {
        on_a_loop(move || notify(&steps));
    }
}

#[test]
fn who_waits_has_a_notification_of_its_own() {
    on_a_loop(|| {
        let notify = Notify::new();
        let mut waiters = Waiters::new();
        for _ in 0..2 {
            waiters.begin(notify.notified());
            waiters.poll(waiters.all.len() - 1, false);
        }
        for _ in 0..2 {
            notify.notify_one();
            waiters.one_is_woken();
        }
        waiters.poll(0, true);
        waiters.poll(0, true);
    });
}

#[test]
fn a_notification_is_kept_once() {
    on_a_loop(|| {
        let notify = Notify::new();
        notify.notify_one();
        notify.notify_one();
        let mut waiters = Waiters::new();
        waiters.begin(notify.notified());
        waiters.begin(notify.notified());
        waiters.poll(0, true);
        waiters.poll(0, false);
    });
}

#[test]
fn a_semaphore_may_have_as_many_permits_as_one_likes() {
    let semaphore = Semaphore::new(usize::MAX);
    let most = semaphore.available();
    assert!(most > u32::MAX as usize);
    let permit = semaphore.try_acquire().unwrap();
    assert_eq!(semaphore.available(), most - 1);
    drop(permit);
    assert_eq!(semaphore.available(), most);
}

/// Kernel threads that interrupt each other anywhere, and some that give up.
#[test]
fn a_mutex_excludes_kernel_threads() {
    static NUMBER: Mutex<usize> = Mutex::new(0);
    static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);
    thread::scope(|scope| {
        for patience in [Duration::from_micros(1), EVER, EVER, EVER] {
            scope.spawn(move || {
                for _ in 0..2000 {
                    block_on(async {
                        match timeout(patience, NUMBER.lock()).await {
                            Ok(mut number) => {
                                let before = *number;
                                thread::yield_now();
                                *number = before + 1;
                            }
                            Err(_) => drop(GIVEN_UP.fetch_add(1, Ordering::Relaxed)),
                        }
                    });
                }
            });
        }
    });
    assert_eq!(*NUMBER.try_lock().unwrap() + GIVEN_UP.load(Ordering::Relaxed), 8000);
}

/// Two that wait for one another's notification at each step: one that is lost holds up both.
#[test]
fn kernel_threads_tell_each_other() {
    let (to, from) = (Notify::new(), Notify::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            block_on(async {
                for _ in 0..2000 {
                    timeout(EVER, to.notified()).await.unwrap();
                    from.notify_one();
                }
            });
        });
        block_on(async {
            for _ in 0..2000 {
                to.notify_one();
                timeout(EVER, from.notified()).await.unwrap();
            }
        });
    });
}
