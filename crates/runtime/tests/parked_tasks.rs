//! A million tasks parked at once, in little memory, and each of them woken.
//! (`examples/parked_tasks.rs` has ten millions, and says what the memory is.)

use std::sync::atomic::{AtomicUsize, Ordering};

use duality_poller::Kind;
use duality_runtime::event_loop::{self, EventLoop, LoopWorld};
use duality_runtime::sync::Notify;
use duality_runtime::task;
use duality_runtime::time::{Duration, timeout};

const TASKS: usize = 1_000_000;

/// Bytes for each task. A state machine of 56 is in a block of 64. Beside it are a slot, a place in
/// the queue, a place among the waiters and a timer. A quarter comes on top, because allocators
/// differ.
const MOST: usize = 240;

/// Alone in its process, since it looks at all of its memory.
#[test]
fn a_million_tasks_wait_in_little_memory_and_all_are_woken() {
    static GO: Notify = Notify::new();
    static PARKED: AtomicUsize = AtomicUsize::new(0);
    static WOKEN: AtomicUsize = AtomicUsize::new(0);
    async fn wait() {
        PARKED.fetch_add(1, Ordering::Relaxed);
        if timeout(Duration::from_secs(3600), GO.notified()).await.is_ok() {
            WOKEN.fetch_add(1, Ordering::Relaxed);
        }
    }
    let opened = EventLoop::new(Kind::Epoll.open().unwrap(), LoopWorld::Suspend);
    opened.unwrap().run(async {
        let before = resident();
        for _ in 0..TASKS {
            event_loop::reserve().unwrap().spawn(Box::pin(wait()));
        }
        while PARKED.load(Ordering::Relaxed) < TASKS {
            task::yield_now().await;
        }
        let each = (resident() - before) / TASKS;
        assert!(
            each <= MOST,
            "{each} bytes each, {} of them the state machine",
            size_of_val(&wait())
        );
        GO.notify_waiters();
        while WOKEN.load(Ordering::Relaxed) < TASKS {
            task::yield_now().await;
        }
    });
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    resident * rustix::param::page_size()
}
