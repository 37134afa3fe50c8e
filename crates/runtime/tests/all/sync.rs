//! Tests which tasks the synchronisation primitives wake, under waits that begin, are polled, are
//! given up and are notified in any order.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use duality_poller::Kind;
use duality_runtime::block_on;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::sync::channel::bounded;
use duality_runtime::sync::{Mutex, Notify, Permit, Semaphore};
use duality_runtime::time::{Duration, timeout};
use proptest::prelude::*;
use proptest::sample::Index;

/// Long enough never to pass in a test that works.
const EVER: Duration = Duration::from_secs(20);

/// The next step of one of the waiters.
#[derive(Clone, Debug)]
enum Step {
    Begin,
    /// The waiter is polled also without a wake: a wake may be spurious.
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

/// A task that waits, or has not begun to.
struct Waiter<'a, R> {
    number: usize,
    future: Pin<Box<dyn Future<Output = R> + 'a>>,
    /// Wakes since the last poll.
    woken: Arc<Woken>,
    has_waited: bool,
}

/// The waiters, and the expected queue.
struct Waiters<'a, R> {
    all: Vec<Waiter<'a, R>>,
    queue: VecDeque<usize>,
    /// Tasks that were handed something and have not come for it.
    handed: Vec<usize>,
    begun: usize,
}

impl<'a, R> Waiters<'a, R> {
    fn new() -> Self {
        Self { all: Vec::new(), queue: VecDeque::new(), handed: Vec::new(), begun: 0 }
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
                self.handed.retain(|handed| handed != number);
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

    /// A task gives up. Returns true if the task gives an object back, and no other task waits.
    fn give_up(&mut self, index: usize) -> bool {
        let waiter = self.all.remove(index);
        self.queue.retain(|number| *number != waiter.number);
        let handed = self.handed.len();
        self.handed.retain(|number| *number != waiter.number);
        let gives_back = self.handed.len() < handed;
        drop(waiter);
        gives_back && !self.one_is_handed()
    }

    /// Something has been handed to the one that has waited longest; false when nothing waits.
    fn one_is_handed(&mut self) -> bool {
        let Some(number) = self.queue.pop_front() else { return false };
        let waiter = self.all.iter().find(|waiter| waiter.number == number).unwrap();
        assert!(waiter.woken.0.load(Ordering::Relaxed), "the one that has waited longest");
        self.handed.push(number);
        true
    }

    fn is_handed(&self, index: usize) -> bool {
        self.handed.contains(&self.all[index].number)
    }

    /// The tasks that have waited and are not in the queue have been woken, and no others.
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
        let left = permits - taken.len() - waiters.handed.len();
        match step {
            Step::Begin => waiters.begin(semaphore.acquire()),
            Step::Poll(index) => {
                if let Some(index) = waiters.find(*index) {
                    let ends = left > 0 || waiters.is_handed(index);
                    taken.extend(waiters.poll(index, ends));
                }
            }
            Step::GiveUp(index) => {
                if let Some(index) = waiters.find(*index) {
                    waiters.give_up(index);
                }
            }
            Step::Tell => {
                if taken.pop().is_some() {
                    waiters.one_is_handed();
                }
            }
            Step::Other => {
                let permit = semaphore.try_acquire();
                assert_eq!(permit.is_some(), left > 0);
                taken.extend(permit);
            }
        }
        waiters.check();
        let left = permits - taken.len() - waiters.handed.len();
        assert_eq!(semaphore.available(), left);
        assert!(left == 0 || waiters.queue.is_empty(), "one waits for a permit that is there");
    }
}

fn notify(steps: &[Step]) {
    let notify = Notify::new();
    let mut waiters = Waiters::<()>::new();
    // For each waiter that has begun: the number of broadcasts before.
    let mut seen = Vec::new();
    let (mut kept, mut broadcasts) = (false, 0);
    for step in steps {
        match step {
            Step::Begin => {
                waiters.begin(notify.notified());
                seen.push(broadcasts);
            }
            Step::Poll(index) => {
                if let Some(index) = waiters.find(*index) {
                    let all = seen[waiters.all[index].number] != broadcasts;
                    let handed = waiters.is_handed(index);
                    waiters.poll(index, handed || kept || all);
                    kept &= handed;
                }
            }
            Step::GiveUp(index) => {
                if let Some(index) = waiters.find(*index) {
                    kept |= waiters.give_up(index);
                }
            }
            Step::Tell => {
                notify.notify_one();
                kept |= !waiters.one_is_handed();
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

fn channel(capacity: usize, steps: &[Step]) {
    let (sender, mut receiver) = bounded(capacity);
    let mut waiters = Waiters::<()>::new();
    let mut due = VecDeque::new();
    for step in steps {
        let left = capacity - due.len() - waiters.handed.len();
        match step {
            Step::Begin => {
                let (sender, number) = (sender.clone(), waiters.begun);
                waiters.begin(async move { sender.send(number).await.unwrap() });
            }
            Step::Poll(index) => {
                if let Some(index) = waiters.find(*index) {
                    let ends = left > 0 || waiters.is_handed(index);
                    let number = waiters.all[index].number;
                    due.extend(waiters.poll(index, ends).map(|()| number));
                }
            }
            Step::GiveUp(index) => {
                if let Some(index) = waiters.find(*index) {
                    waiters.give_up(index);
                }
            }
            Step::Tell => {
                let received = receiver.try_recv();
                assert_eq!(received, due.pop_front());
                if received.is_some() {
                    waiters.one_is_handed();
                }
            }
            Step::Other => {
                assert_eq!(sender.try_send(usize::MAX).is_ok(), left > 0);
                due.extend((left > 0).then_some(usize::MAX));
            }
        }
        waiters.check();
    }
}

/// Runs a body on a loop, where a future that must wait returns `Pending`.
fn on_a_loop(body: impl FnOnce() + 'static) {
    let opened = EventLoop::new(Kind::Poll.open().unwrap(), LoopWorld::Suspend);
    opened.unwrap().run(async { body() });
}

proptest! {
    #[test]
    fn a_semaphore_wakes_who_has_waited_longest(permits in 0usize..4, steps in steps()) {
        on_a_loop(move || semaphore(permits, &steps));
    }

    #[test]
    fn a_channel_gives_room_to_who_has_waited_longest(capacity in 1usize..4, steps in steps()) {
        on_a_loop(move || channel(capacity, &steps));
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
            waiters.one_is_handed();
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

/// A task that gives its turn back and wants it again has it after all that waited in between.
fn turns_go_round(world: LoopWorld) {
    const TASKS: usize = 3;
    const TURNS: usize = 4;
    let opened = EventLoop::new(Kind::Poll.open().unwrap(), world);
    let turns = opened.unwrap().run(async {
        let lock = Arc::new(Mutex::new(Vec::new()));
        let task = |number| {
            let lock = lock.clone();
            duality_runtime::task::spawn(async move {
                for _ in 0..TURNS {
                    let mut turns = lock.lock().await;
                    // Other tasks queue in the meantime.
                    duality_runtime::task::yield_now().await;
                    turns.push(number);
                }
            })
            .unwrap()
        };
        let tasks: Vec<_> = (0..TASKS).map(task).collect();
        for task in tasks {
            task.await.unwrap();
        }
        lock.lock().await.clone()
    });
    let round: Vec<_> = (0..TASKS).collect();
    assert_eq!(turns, round.repeat(TURNS));
}

#[test]
fn turns_go_round_among_state_machines() {
    turns_go_round(LoopWorld::Suspend);
}

#[test]
fn turns_go_round_among_user_level_threads() {
    turns_go_round(LoopWorld::Park { stack_size: 64 << 10 });
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

/// Two tasks wait for one another's notification at each step: a lost notification holds up both.
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
