//! What a user-level thread must not notice of its stack, and of those it shares a kernel thread with: here it is as in the
//! other worlds.

use std::time::Duration;

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, Waiting};
use duality_runtime::time::{Elapsed, sleep, timeout};
use duality_runtime::{block_on, task};

/// Long enough for another task to run first.
const MOMENT: Duration = Duration::from_millis(10);
/// Long enough never to pass in a test that works.
const EVER: Duration = Duration::from_secs(20);

fn in_every_world<F: Future<Output = ()> + 'static>(body: fn() -> F) {
    block_on(body());
    for waiting in [Waiting::Park { stack_size: 64 * 1024 }, Waiting::Suspend] {
        EventLoop::new(Kind::Epoll.open().unwrap(), waiting).unwrap().run(body());
    }
}

#[test]
fn a_timeout_is_its_tasks_own() {
    in_every_world(|| async {
        let hurried = task::spawn(timeout(MOMENT, sleep(EVER))).unwrap();
        let patient = task::spawn(async {
            task::yield_now().await;
            timeout(EVER, sleep(3 * MOMENT)).await
        });
        sleep(2 * MOMENT).await;
        assert_eq!(hurried.await.unwrap(), Err(Elapsed));
        assert_eq!(patient.unwrap().await.unwrap(), Ok(()));
    });
}

#[test]
fn a_leaf_has_the_stack_of_the_kernel_thread() {
    in_every_world(|| async {
        let bytes = vec![3_u8; 1000];
        // More than a user-level thread has here.
        let sum = task::leaf(|| {
            let room = std::hint::black_box([1_u8; 512 * 1024]);
            room.len() + bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>()
        });
        assert_eq!(sum, 512 * 1024 + 3000);
        sleep(MOMENT).await;
    });
}

#[test]
fn a_panic_in_a_leaf_is_its_tasks() {
    in_every_world(|| async {
        let handle = task::spawn(async { task::leaf(|| panic!("on purpose")) }).unwrap();
        assert_eq!(handle.await, Err::<(), _>(task::JoinError));
        sleep(MOMENT).await;
    });
}
