//! Locks for readers and writers, barriers, broadcasts, watched values and cancellation, in every
//! world.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duality_runtime::select;
use duality_runtime::sync::broadcast::{self, RecvError, TryRecvError};
use duality_runtime::sync::{Barrier, CancellationToken, RwLock, watch};
use duality_runtime::task::{self, JoinHandle};
use duality_runtime::time::{Duration, sleep, timeout};

const MOMENT: Duration = Duration::from_millis(2);
const FOR_EVER: Duration = Duration::from_secs(3600);

duality_kit::in_every_world! {
    readers_read_together_and_writers_alone
    a_reader_comes_after_a_writer_that_waits
    a_writer_that_gives_up_lets_readers_in
    a_writer_goes_on_as_a_reader
    a_barrier_lets_tasks_go_on_together
    a_task_that_gives_up_does_not_count
    each_receiver_receives_all
    a_slow_receiver_learns_what_it_has_missed
    a_broadcast_ends_with_its_senders
    a_watched_value_is_seen_once
    a_watched_value_is_waited_for
    a_sender_learns_that_no_receiver_is_left
    a_token_cancels_its_descendants
    a_token_ends_what_runs_under_it
}

async fn all<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

async fn readers_read_together_and_writers_alone() {
    let lock = Arc::new(RwLock::new(0_u32));
    let (reading, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for number in 0..12 {
        let (lock, reading, most) = (lock.clone(), reading.clone(), most.clone());
        tasks.push(task::spawn(async move {
            if number % 4 == 3 {
                let mut value = lock.write().await;
                assert_eq!(reading.load(Ordering::SeqCst), 0);
                let before = *value;
                sleep(MOMENT / 4).await;
                *value = before + 1;
            } else {
                let value = lock.read().await;
                most.fetch_max(reading.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let before = *value;
                sleep(MOMENT).await;
                assert_eq!(*value, before);
                reading.fetch_sub(1, Ordering::SeqCst);
            }
        }));
    }
    all(tasks.into_iter().map(Result::unwrap).collect()).await;
    assert_eq!(*lock.read().await, 3);
    assert!(most.load(Ordering::SeqCst) > 1, "readers read together");
    assert_eq!(Arc::into_inner(lock).unwrap().into_inner(), 3);
}

async fn a_reader_comes_after_a_writer_that_waits() {
    let lock = Arc::new(RwLock::new(Vec::new()));
    let reads = lock.read().await;
    let writing = {
        let lock = lock.clone();
        task::spawn(async move { lock.write().await.push(1) }).unwrap()
    };
    while lock.try_read().is_some() {
        task::yield_now().await;
    }
    assert!(lock.try_write().is_none());
    let reading = {
        let lock = lock.clone();
        task::spawn(async move { lock.read().await.len() }).unwrap()
    };
    sleep(MOMENT).await;
    assert!(!writing.is_finished() && !reading.is_finished());
    drop(reads);
    writing.await.unwrap();
    assert_eq!(reading.await, Ok(1));
}

async fn a_writer_that_gives_up_lets_readers_in() {
    let lock = RwLock::new(5);
    let reads = lock.read().await;
    assert!(timeout(MOMENT, lock.write()).await.is_err());
    assert_eq!(*lock.read().await, *reads);
    drop(reads);
    *lock.try_write().unwrap() += 1;
    assert_eq!(*lock.read().await, 6);
}

async fn a_writer_goes_on_as_a_reader() {
    let lock = RwLock::new(1);
    let mut writes = lock.write().await;
    *writes = 2;
    let reads = writes.downgrade();
    assert_eq!((*reads, *lock.read().await), (2, 2));
    assert!(lock.try_write().is_none());
    drop(reads);
    assert!(lock.try_write().is_some());
}

async fn a_barrier_lets_tasks_go_on_together() {
    const ROUNDS: usize = 3;
    let (barrier, come) = (Arc::new(Barrier::new(4)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for number in 0..4 {
        let (barrier, come) = (barrier.clone(), come.clone());
        let task = task::spawn(async move {
            let mut leads = 0;
            for round in 0..ROUNDS {
                sleep(number * MOMENT / 8).await;
                come.fetch_add(1, Ordering::SeqCst);
                leads += usize::from(barrier.wait().await.is_leader());
                assert!(come.load(Ordering::SeqCst) >= 4 * (round + 1));
            }
            leads
        });
        tasks.push(task.unwrap());
    }
    assert_eq!(all(tasks).await.into_iter().sum::<usize>(), ROUNDS);
    assert!(Barrier::new(0).wait().await.is_leader());
}

async fn a_task_that_gives_up_does_not_count() {
    let barrier = Arc::new(Barrier::new(2));
    assert!(timeout(MOMENT, barrier.wait()).await.is_err());
    let other = barrier.clone();
    let task = task::spawn(async move { other.wait().await.is_leader() }).unwrap();
    sleep(MOMENT).await;
    assert!(!task.is_finished(), "one alone waits");
    assert_ne!(barrier.wait().await.is_leader(), task.await.unwrap());
}

async fn each_receiver_receives_all() {
    let (sender, first) = broadcast::channel(200);
    let mut tasks = Vec::new();
    for mut receiver in [first, sender.subscribe(), sender.subscribe()] {
        tasks.push(task::spawn(async move {
            let mut seen = Vec::new();
            while let Ok(value) = receiver.recv().await {
                seen.push(value);
            }
            seen
        }));
    }
    let other = sender.clone();
    for value in 0..100 {
        let sender = if value % 2 == 0 { &sender } else { &other };
        assert_eq!(sender.send(value), Ok(3));
        if value % 10 == 0 {
            task::yield_now().await;
        }
    }
    drop((sender, other));
    for seen in all(tasks.into_iter().map(Result::unwrap).collect()).await {
        assert!(seen.into_iter().eq(0..100));
    }
}

async fn a_slow_receiver_learns_what_it_has_missed() {
    let (sender, mut slow) = broadcast::channel(2);
    for value in 0..5 {
        sender.send(value).unwrap();
    }
    assert_eq!((sender.len(), slow.len()), (2, 5));
    assert_eq!(slow.recv().await, Err(RecvError::Lagged(3)));
    assert_eq!(slow.recv().await, Ok(3));
    assert_eq!(slow.try_recv(), Ok(4));
    assert_eq!(slow.try_recv(), Err(TryRecvError::Empty));
    assert!(sender.is_empty() && slow.is_empty());
    let mut late = slow.resubscribe();
    let told = select! {
        _ = late.recv() => false,
        () = sleep(MOMENT) => true,
    };
    assert!(told);
    sender.send(9).unwrap();
    assert_eq!((late.recv().await, slow.recv().await), (Ok(9), Ok(9)));
}

async fn a_broadcast_ends_with_its_senders() {
    let (sender, mut receiver) = broadcast::channel(1);
    let ending = task::spawn(async move { receiver.recv().await }).unwrap();
    sleep(MOMENT).await;
    assert_eq!(sender.receiver_count(), 1);
    drop(sender.clone());
    assert!(!ending.is_finished());
    drop(sender);
    assert_eq!(ending.await, Ok(Err::<u32, _>(RecvError::Closed)));
    let (sender, receiver) = broadcast::channel(1);
    drop(receiver);
    assert_eq!(sender.send(1), Err(broadcast::SendError(1)));
    let mut receiver = sender.subscribe();
    assert_eq!(sender.send(2), Ok(1));
    drop(sender);
    assert_eq!(receiver.recv().await, Ok(2));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

async fn a_watched_value_is_seen_once() {
    let (sender, mut receiver) = watch::channel(0);
    assert_eq!(receiver.has_changed(), Ok(false));
    assert!(timeout(MOMENT, receiver.changed()).await.is_err());
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    let mut other = receiver.clone();
    assert!(receiver.borrow().has_changed());
    assert_eq!(receiver.changed().await, Ok(()));
    assert_eq!((*receiver.borrow(), receiver.has_changed()), (2, Ok(false)));
    assert_eq!(*other.borrow_and_update() + *receiver.borrow(), 4);
    assert_eq!(other.has_changed(), Ok(false));
    assert!(!sender.send_if_modified(|_| false));
    assert_eq!(other.has_changed(), Ok(false));
    other.mark_changed();
    assert_eq!(other.changed().await, Ok(()));
    sender.send_modify(|value| *value += 1);
    assert_eq!(*sender.borrow(), 3);
    other.mark_unchanged();
    drop(sender);
    // The last value is seen before the end.
    assert_eq!(receiver.changed().await, Ok(()));
    assert_eq!(receiver.changed().await, Err(watch::RecvError));
    assert_eq!(other.changed().await, Err(watch::RecvError));
    assert_eq!(other.has_changed(), Err(watch::RecvError));
    assert_eq!(*other.borrow(), 3);
}

async fn a_watched_value_is_waited_for() {
    let (sender, receiver) = watch::channel(0_u32);
    let mut tasks = Vec::new();
    for wanted in [10, 20, 30] {
        let mut receiver = receiver.clone();
        tasks.push(task::spawn(async move {
            receiver.wait_for(|value| *value >= wanted).await.map(|value| *value)
        }));
    }
    drop(receiver);
    for value in 1..=25 {
        sender.send(value).unwrap();
        task::yield_now().await;
    }
    drop(sender);
    let results = all(tasks.into_iter().map(Result::unwrap).collect()).await;
    assert!(results[0].is_ok_and(|value| value >= 10), "{results:?}");
    assert!(results[1].is_ok_and(|value| value >= 20), "{results:?}");
    assert_eq!(results[2], Err(watch::RecvError));
}

async fn a_sender_learns_that_no_receiver_is_left() {
    let (sender, receiver) = watch::channel("settings");
    assert!(!sender.is_closed());
    let other = sender.subscribe();
    let leaving = task::spawn(async move {
        sleep(MOMENT).await;
        drop((receiver, other));
    });
    sender.closed().await;
    assert!(sender.is_closed());
    assert_eq!(sender.send("lost"), Err(watch::SendError("lost")));
    assert_eq!(sender.send_replace("kept"), "settings");
    assert_eq!(*sender.subscribe().borrow(), "kept");
    assert_eq!(sender.receiver_count(), 0);
    leaving.unwrap().await.unwrap();
}

async fn a_token_cancels_its_descendants() {
    let token = CancellationToken::new();
    // The token in between is dropped.
    let grandchild = token.child_token().child_token();
    let alone = token.child_token();
    let waiting = {
        let grandchild = grandchild.clone();
        task::spawn(async move { grandchild.cancelled().await }).unwrap()
    };
    alone.cancel();
    sleep(MOMENT).await;
    assert!(alone.is_cancelled() && !token.is_cancelled() && !waiting.is_finished());
    for _ in 0..100 {
        drop(token.child_token());
    }
    drop(token.clone().drop_guard().disarm());
    assert!(!token.is_cancelled());
    drop(token.clone().drop_guard());
    waiting.await.unwrap();
    assert!(grandchild.is_cancelled() && token.child_token().is_cancelled());
    token.child_token().cancelled_owned().await;
    // A long line of descent ends without a deep stack.
    let mut last = CancellationToken::new();
    for _ in 0..50_000 {
        last = last.child_token();
    }
    drop(last);
}

async fn a_token_ends_what_runs_under_it() {
    let token = CancellationToken::new();
    assert_eq!(token.run_until_cancelled(async { 1 }).await, Some(1));
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let token = token.clone();
        tasks.push(task::spawn(async move { token.run_until_cancelled(sleep(FOR_EVER)).await }));
    }
    sleep(MOMENT).await;
    token.cancel();
    token.cancel();
    let ended = all(tasks.into_iter().map(Result::unwrap).collect()).await;
    assert_eq!(ended, [None; 5]);
    assert_eq!(token.run_until_cancelled(sleep(FOR_EVER)).await, None);
}
