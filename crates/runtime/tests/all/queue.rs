//! The queue of ready tasks keeps every wake, whatever is started, woken, yielded and ended in
//! between.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::sync::Notify;
use duality_runtime::task;
use proptest::prelude::*;

/// The steps of a task, one after the other.
#[derive(Clone, Debug)]
enum Step {
    Yield,
    /// Wakes itself, and goes on at once: the wake may come when it has ended.
    WakeOneself,
    /// Wakes itself and waits for it.
    Wait,
    /// Starts others, which do so too.
    Start(Vec<Vec<Step>>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![Just(Step::Yield), Just(Step::WakeOneself), Just(Step::Wait)];
    let step = leaf.prop_recursive(4, 600, 40, |step| {
        let others = prop::collection::vec(prop::collection::vec(step, 0..4), 0..40);
        others.prop_map(Step::Start)
    });
    prop::collection::vec(step, 0..20)
}

fn count(steps: &[Step]) -> usize {
    let started = |step: &Step| match step {
        Step::Start(others) => others.iter().map(|steps| count(steps)).sum(),
        _ => 0,
    };
    1 + steps.iter().map(started).sum::<usize>()
}

fn perform(steps: Vec<Step>, ended: Arc<AtomicUsize>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        for step in steps {
            match step {
                Step::Yield => task::yield_now().await,
                Step::WakeOneself => own_waker().await.wake(),
                Step::Wait => {
                    let mut has_waited = false;
                    poll_fn(|context| {
                        if std::mem::replace(&mut has_waited, true) {
                            return Poll::Ready(());
                        }
                        context.waker().wake_by_ref();
                        Poll::Pending
                    })
                    .await;
                }
                Step::Start(others) => {
                    for steps in others {
                        drop(task::spawn(perform(steps, ended.clone())).unwrap());
                    }
                }
            }
        }
        ended.fetch_add(1, Ordering::Relaxed);
    })
}

async fn own_waker() -> Waker {
    poll_fn(|context| Poll::Ready(context.waker().clone())).await
}

/// The tasks come to wait one by one, so the queue stays short, and are woken all at once.
#[test]
fn many_that_are_woken_at_once_all_run() {
    const TASKS: usize = 5000;
    for world in [LoopWorld::Suspend, LoopWorld::Park { stack_size: 32 * 1024 }] {
        let poller = Kind::Epoll.open().unwrap();
        EventLoop::new(poller, world).unwrap().run(async {
            let told = Arc::new(Notify::new());
            let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            for number in 1..=TASKS {
                let (told, has_begun, ended) = (told.clone(), begun.clone(), ended.clone());
                let task = task::spawn(async move {
                    has_begun.store(number, Ordering::Relaxed);
                    told.notified().await;
                    ended.fetch_add(1, Ordering::Relaxed);
                });
                drop(task.unwrap());
                while begun.load(Ordering::Relaxed) < number {
                    task::yield_now().await;
                }
            }
            told.notify_waiters();
            while ended.load(Ordering::Relaxed) < TASKS {
                task::yield_now().await;
            }
        });
    }
}

/// A destructor runs when its task is no more, and must not have it queued again.
#[test]
fn a_yield_in_a_destructor_is_in_vain() {
    struct Yields(Arc<AtomicUsize>);
    impl Drop for Yields {
        fn drop(&mut self) {
            let mut yielding = pin!(task::yield_now());
            let mut context = Context::from_waker(Waker::noop());
            if yielding.as_mut().poll(&mut context).is_pending() {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    let vain = Arc::new(AtomicUsize::new(0));
    let seen = vain.clone();
    EventLoop::new(Kind::Epoll.open().unwrap(), LoopWorld::Suspend).unwrap().run(async move {
        for _ in 0..3 {
            let yields = Yields(vain.clone());
            // The state is dropped with the task, and with all that it holds.
            let task = task::spawn(poll_fn(move |_| {
                let _ = &yields;
                Poll::Ready(())
            }));
            task.unwrap().await.unwrap();
            task::yield_now().await;
        }
    });
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_task_comes_to_its_end(waves in prop::collection::vec(steps(), 1..4)) {
        for world in [LoopWorld::Suspend, LoopWorld::Park { stack_size: 32 * 1024 }] {
            let poller = Kind::Epoll.open().unwrap();
            let mut event_loop = EventLoop::new(poller, world).unwrap();
            for steps in waves.clone() {
                let expected = count(&steps);
                let ended = Arc::new(AtomicUsize::new(0));
                let seen = ended.clone();
                event_loop.run(async move {
                    perform(steps, ended.clone()).await;
                    while ended.load(Ordering::Relaxed) < expected {
                        task::yield_now().await;
                    }
                    // The rest of it is dropped, with its entries in the queue.
                    for _ in 0..300 {
                        drop(task::spawn(task::yield_now()).unwrap());
                    }
                });
                prop_assert_eq!(seen.load(Ordering::Relaxed), expected);
            }
        }
    }
}
