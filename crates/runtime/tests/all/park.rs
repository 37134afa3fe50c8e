//! A user-level thread must not notice its stack, nor the threads that share its kernel thread.
//! Here it behaves as in the other worlds.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::Duration;

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::task;
use duality_runtime::time::{Elapsed, sleep, timeout};

/// Long enough for another task to run first.
const MOMENT: Duration = Duration::from_millis(10);
/// Long enough never to pass in a test that works.
const EVER: Duration = Duration::from_secs(20);

duality_kit::in_every_world! {
    a_timeout_is_its_tasks_own
    a_leaf_has_the_stack_of_the_kernel_thread
    a_panic_in_a_leaf_is_its_tasks
    each_task_ends_as_it_does
    tasks_that_only_take_turns_leave_timers_their_turn
    who_is_woken_goes_on_where_it_waited
}

async fn a_timeout_is_its_tasks_own() {
    let hurried = task::spawn(timeout(MOMENT, sleep(EVER))).unwrap();
    let patient = task::spawn(async {
        task::yield_now().await;
        timeout(EVER, sleep(3 * MOMENT)).await
    });
    sleep(2 * MOMENT).await;
    assert_eq!(hurried.await.unwrap(), Err(Elapsed));
    assert_eq!(patient.unwrap().await.unwrap(), Ok(()));
}

async fn a_leaf_has_the_stack_of_the_kernel_thread() {
    let bytes = vec![3_u8; 1000];
    // More than a user-level thread has here.
    let sum = task::leaf(|| {
        let room = std::hint::black_box([1_u8; 512 * 1024]);
        room.len() + bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>()
    });
    assert_eq!(sum, 512 * 1024 + 3000);
    sleep(MOMENT).await;
}

async fn a_panic_in_a_leaf_is_its_tasks() {
    let handle = task::spawn(async { task::leaf(|| panic!("on purpose")) }).unwrap();
    assert!(handle.await.unwrap_err().is_panic());
    sleep(MOMENT).await;
}

/// The processor goes from one fiber to the next without the loop. The loop must still know which
/// turn ends, and how.
async fn each_task_ends_as_it_does() {
    let run = |number: usize| async move {
        for _ in 0..number % 7 {
            task::yield_now().await;
        }
        assert!(number % 10 != 3, "on purpose");
        number
    };
    let running: Vec<_> = (0..60).map(|number| task::spawn(run(number)).unwrap()).collect();
    for (number, handle) in running.into_iter().enumerate() {
        match handle.await {
            Ok(returned) => assert!(returned == number && number % 10 != 3),
            Err(error) => assert!(error.is_panic() && number % 10 == 3, "{error}"),
        }
    }
}

async fn tasks_that_only_take_turns_leave_timers_their_turn() {
    let is_over = Arc::new(AtomicBool::new(false));
    let yielding = || {
        let is_over = is_over.clone();
        task::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                task::yield_now().await;
            }
        })
    };
    let both = [yielding().unwrap(), yielding().unwrap()];
    sleep(MOMENT).await;
    is_over.store(true, Ordering::Relaxed);
    for handle in both {
        handle.await.unwrap();
    }
}

async fn who_is_woken_goes_on_where_it_waited() {
    let place: Arc<OnceLock<Waker>> = Arc::default();
    let is_told = Arc::new(AtomicBool::new(false));
    let (waits, told) = (place.clone(), is_told.clone());
    let waiting = task::spawn(async move {
        let own = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        waits.get_or_init(|| own);
        while !told.load(Ordering::Acquire) {
            task::woken().await;
        }
    });
    while place.get().is_none() {
        task::yield_now().await;
    }
    is_told.store(true, Ordering::Release);
    place.get().unwrap().wake_by_ref();
    waiting.unwrap().await.unwrap();
}

#[test]
fn a_wait_in_a_leaf_is_its_tasks_panic() {
    let park = LoopWorld::Park { stack_size: 64 * 1024 };
    EventLoop::new(Kind::Epoll.open().unwrap(), park).unwrap().run(async {
        let others = task::spawn(async {
            for _ in 0..10 {
                task::yield_now().await;
            }
        });
        let waiting = async { task::leaf(|| poll_once(task::yield_now())) };
        assert!(task::spawn(waiting).unwrap().await.unwrap_err().is_panic());
        others.unwrap().await.unwrap();
    });
}

/// Polls a future once.
fn poll_once(future: impl Future<Output = ()>) {
    let mut context = std::task::Context::from_waker(Waker::noop());
    let _ = std::pin::pin!(future).poll(&mut context);
}
