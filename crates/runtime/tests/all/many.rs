//! Many user-level threads at once: alive, woken, asleep, ended, and one that overflows.

use std::cell::Cell;
use std::env;
use std::future::poll_fn;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::task;
use duality_runtime::time::{Duration, Instant, sleep_until};

fn parked() -> EventLoop {
    let poller = duality_poller::Kind::Epoll.open().unwrap();
    EventLoop::new(poller, LoopWorld::Park { stack_size: 16 * 1024 }).unwrap()
}

/// Beyond what mappings of their own would allow (32,730), and each gets its wake and no other's.
#[test]
fn a_hundred_thousand_threads_are_alive_and_each_is_woken_once() {
    const ALL: usize = 100_000;
    let woken = Rc::new(Cell::new(0));
    let seen = woken.clone();
    parked().run(async move {
        let wakers = Arc::new(Mutex::new(Vec::<Waker>::new()));
        let turns = Arc::new(AtomicUsize::new(0));
        for _ in 0..ALL {
            let (wakers, turns) = (wakers.clone(), turns.clone());
            let mut polls = 0;
            let thread = poll_fn(move |context| {
                polls += 1;
                if polls == 1 {
                    wakers.lock().unwrap().push(context.waker().clone());
                    return Poll::Pending;
                }
                turns.fetch_add(1, Ordering::Relaxed);
                Poll::Ready(())
            });
            drop(task::spawn(thread).unwrap());
        }
        while wakers.lock().unwrap().len() < ALL {
            task::yield_now().await;
        }
        assert_eq!(turns.load(Ordering::Relaxed), 0, "all are alive, and none has been woken");
        let wakers = std::mem::take(&mut *wakers.lock().unwrap());
        // A step that has no factor in common with their number reaches all, far from one another.
        (0..ALL).for_each(|turn| wakers[turn * 61_803 % ALL].wake_by_ref());
        while turns.load(Ordering::Relaxed) < ALL {
            task::yield_now().await;
        }
        // The tasks have ended, so a late wake reaches neither them nor a later task.
        wakers.iter().for_each(Waker::wake_by_ref);
        task::yield_now().await;
        seen.set(turns.load(Ordering::Relaxed));
    });
    assert_eq!(woken.get(), ALL);
}

#[test]
fn a_hundred_thousand_threads_sleep_and_none_wakes_early() {
    const ALL: usize = 100_000;
    parked().run(async {
        let begin = Instant::now();
        let early = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicUsize::new(0));
        for index in 0..ALL {
            let deadline = begin + Duration::from_millis((index * 61_803 % 500) as u64);
            let (early, ended) = (early.clone(), ended.clone());
            let thread = async move {
                sleep_until(deadline).await;
                early.fetch_add(usize::from(Instant::now() < deadline), Ordering::Relaxed);
                ended.fetch_add(1, Ordering::Relaxed);
            };
            drop(task::spawn(thread).unwrap());
        }
        while ended.load(Ordering::Relaxed) < ALL {
            task::yield_now().await;
        }
        assert_eq!(early.load(Ordering::Relaxed), 0);
    });
}

/// In a child process, which it ends.
#[test]
fn a_thread_that_overflows_its_stack_is_named() {
    fn descend(depth: u64) -> u64 {
        let frame = black_box([depth; 8]);
        if frame[3] == u64::MAX { 0 } else { 1 + descend(frame[3] + 1) + black_box(frame)[5] }
    }
    let test = "many::a_thread_that_overflows_its_stack_is_named";
    if env::var_os("DUALITY_RUNTIME_OVERFLOW").is_some() {
        parked().run(async {
            let threads: Vec<_> = (1..=3)
                .map(|number| {
                    let thread = async move { if number == 2 { descend(0) } else { 0 } };
                    task::spawn(thread).unwrap()
                })
                .collect();
            for thread in threads {
                let _ = thread.await;
            }
        });
        std::process::exit(0);
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env("DUALITY_RUNTIME_OVERFLOW", "yes");
    let output = child.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // The root is task 0.
    let expected =
        "task 2 of loop 1 has overflowed its stack of 16 KiB: give it a larger one (--stack-size)";
    assert!(stderr.lines().any(|line| line == expected), "{stderr}");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
}

#[test]
fn threads_that_are_parked_when_their_loop_ends_drop_what_they_hold() {
    let alive = Arc::new(());
    let held = alive.clone();
    parked().run(async move {
        for _ in 0..1000 {
            let held = held.clone();
            let thread = async move {
                let _held = held;
                std::future::pending::<()>().await;
            };
            drop(task::spawn(thread).unwrap());
        }
        task::yield_now().await;
    });
    assert_eq!(Arc::strong_count(&alive), 1);
}
