//! Tasks, and what they do with one another.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Barrier, Mutex, Notify, Semaphore, broadcast, mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::common::{FOR_EVER, Found, MOMENT, pair};

pub(crate) async fn channels() -> Found {
    let (sender, mut receiver) = mpsc::channel(2);
    let (all, _) = broadcast::channel(64);
    let (state, mut watched) = watch::channel(0);
    let mut listeners = JoinSet::new();
    for _ in 0..4 {
        let mut heard = all.subscribe();
        listeners.spawn(async move {
            let mut sum = 0;
            while let Ok(number) = heard.recv().await {
                sum += number;
            }
            sum
        });
    }
    let send = tokio::spawn(async move {
        for number in 0..50 {
            sender.send(number).await.unwrap();
        }
    });
    while let Some(number) = receiver.recv().await {
        all.send(number)?;
        state.send(number)?;
        tokio::task::yield_now().await;
    }
    send.await?;
    drop(all);
    let sums = listeners.join_all().await;
    let last = *watched.wait_for(|number| *number == 49).await?;
    Ok(format!("{sums:?} {last}"))
}

/// A future of many bytes finds room on each stack on its way.
pub(crate) async fn large_futures() -> Found {
    async fn sum(first: u8) -> u64 {
        let many = [first; 256 * 1024];
        tokio::task::yield_now().await;
        many.iter().map(|byte| u64::from(*byte)).sum()
    }
    let one = tokio::spawn(sum(1)).await?;
    let other = tokio::spawn(async { tokio::spawn(sum(2)).await.unwrap() }).await?;
    let third = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(sum(3))
    });
    Ok(format!("{one} {other} {}", third.await?))
}

pub(crate) async fn locks() -> Found {
    let (count, permits) = (Arc::new(Mutex::new(0)), Arc::new(Semaphore::new(3)));
    let (barrier, notify) = (Arc::new(Barrier::new(11)), Arc::new(Notify::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (count, permits) = (count.clone(), permits.clone());
        let (barrier, notify) = (barrier.clone(), notify.clone());
        tasks.spawn(async move {
            for _ in 0..20 {
                let _permit = permits.acquire().await.unwrap();
                let mut count = count.lock().await;
                let before = *count;
                tokio::task::yield_now().await;
                *count = before + 1;
            }
            let notified = notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            barrier.wait().await;
            notified.await;
        });
    }
    barrier.wait().await;
    notify.notify_waiters();
    tasks.join_all().await;
    Ok(count.lock().await.to_string())
}

pub(crate) async fn join_sets() -> Found {
    let mut set = JoinSet::new();
    let mut starts = Vec::new();
    for number in 1..=3 {
        let (start, started) = tokio::sync::oneshot::channel::<()>();
        starts.push(start);
        set.spawn(async move {
            started.await.unwrap();
            number
        });
    }
    let mut order = Vec::new();
    while let Some(start) = starts.pop() {
        start.send(()).map_err(|()| "it is gone")?;
        order.push(set.join_next().await.ok_or("it is empty")??.to_string());
    }
    let never = set.spawn(async { std::future::pending().await });
    set.spawn_blocking(|| 7);
    never.abort();
    let (mut cancelled, mut sum) = (0, 0);
    while let Some(ended) = set.join_next_with_id().await {
        match ended {
            Ok((_, number)) => sum += number,
            Err(error) => cancelled += u32::from(error.is_cancelled()),
        }
    }
    set.spawn(std::future::pending());
    set.shutdown().await;
    Ok(format!("{} {cancelled} {sum} {}", order.concat(), set.len()))
}

/// An abort drops the future before the handle learns of it.
pub(crate) async fn aborts() -> Found {
    struct SetWhenDropped(Arc<AtomicBool>);
    impl Drop for SetWhenDropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let guard = SetWhenDropped(dropped.clone());
    let (_client, mut server) = pair().await?;
    let task = tokio::spawn(async move {
        let _guard = guard;
        server.read_u8().await
    });
    sleep(MOMENT).await;
    assert!(!task.is_finished());
    task.abort();
    let error = task.await.unwrap_err();
    assert!(dropped.load(Ordering::SeqCst));
    let early = tokio::spawn(std::future::pending::<()>());
    let handle = early.abort_handle();
    handle.abort();
    assert!(early.await.unwrap_err().is_cancelled());
    assert!(handle.is_finished());
    let ended = tokio::spawn(async { 7 });
    while !ended.is_finished() {
        tokio::task::yield_now().await;
    }
    ended.abort();
    Ok(format!("{} {}", error.is_cancelled(), ended.await?))
}

pub(crate) async fn panics() -> Found {
    std::panic::set_hook(Box::new(|_| {}));
    let error = tokio::spawn(async { panic!("on purpose") }).await.unwrap_err();
    let blocking = tokio::task::spawn_blocking(|| panic!("too")).await.unwrap_err();
    let _ = std::panic::take_hook();
    let text = error.to_string();
    let message = text.split_once(' ').and_then(|(_, rest)| rest.split_once(' ')).ok_or("words")?.1;
    Ok(format!("{} {} {message}", error.is_panic(), blocking.is_panic()))
}

pub(crate) async fn local_sets() -> Found {
    // A LocalSet is not Send, so it runs on a thread with a runtime of its own.
    let thread = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let shared = Rc::new(std::cell::Cell::new(0));
        let set = LocalSet::new();
        let count = shared.clone();
        set.spawn_local(async move {
            for _ in 0..5 {
                sleep(Duration::from_millis(1)).await;
                count.set(count.get() + 1);
            }
        });
        let count = shared.clone();
        let out = set.block_on(&runtime, async move {
            let task = tokio::task::spawn_local(async move {
                tokio::task::yield_now().await;
                count.set(count.get() + 10);
                Rc::new(1)
            });
            *task.await.unwrap()
        });
        runtime.block_on(set);
        // Tasks of a current_thread runtime go on in its next block_on.
        let (sender, receiver) = tokio::sync::oneshot::channel();
        runtime.spawn(async { sender.send(5).unwrap() });
        let sent = runtime.block_on(receiver).unwrap();
        let later = runtime.spawn(async {
            sleep(MOMENT).await;
            6
        });
        runtime.block_on(tokio::task::yield_now());
        let later = runtime.block_on(later).unwrap();
        (shared.get(), out, sent, later)
    });
    let found = tokio::task::spawn_blocking(|| thread.join()).await?;
    Ok(format!("{:?}", found.map_err(|_| "a panic")?))
}

pub(crate) async fn blocking_work() -> Found {
    // Each waits for all the others, so all run at once.
    let barrier = Arc::new(std::sync::Barrier::new(20));
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let barrier = barrier.clone();
            tokio::task::spawn_blocking(move || {
                barrier.wait();
                number
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await?;
    }
    let handle = tokio::runtime::Handle::current();
    let nested = tokio::task::spawn_blocking(move || {
        handle.block_on(async {
            sleep(MOMENT).await;
            tokio::spawn(async { 2 }).await.unwrap()
        })
    });
    Ok(format!("{sum} {}", nested.await?))
}

pub(crate) async fn blocking_in_place() -> Found {
    let task = tokio::spawn(async {
        tokio::task::block_in_place(|| {
            // The task that is awaited cannot run on the loop that this task holds up.
            tokio::runtime::Handle::current().block_on(async {
                tokio::spawn(async {
                    sleep(MOMENT).await;
                    3
                })
                .await
                .unwrap()
            })
        })
    });
    Ok(task.await?.to_string())
}

/// Futures with wakers of their own.
pub(crate) async fn unordered_futures() -> Found {
    let mut pairs = Vec::new();
    for _ in 0..10 {
        pairs.push(pair().await?);
    }
    let mut reads: FuturesUnordered<_> = pairs
        .iter_mut()
        .map(|(client, server)| async move {
            let mut buffer = [0; 1];
            let write = async {
                sleep(Duration::from_millis(1)).await;
                client.write_all(b"x").await
            };
            let (read, written) = tokio::join!(server.read_exact(&mut buffer), write);
            written.and(read)
        })
        .collect();
    let mut sum = 0;
    while let Some(count) = reads.next().await {
        sum += count?;
    }
    Ok(sum.to_string())
}

pub(crate) async fn selects() -> Found {
    let (mut client, mut server) = pair().await?;
    let token = CancellationToken::new();
    let (mut ticks, mut bytes) = (0, 0);
    let mut every = interval(Duration::from_millis(1));
    let cancel = token.clone();
    let write = tokio::spawn(async move {
        for _ in 0..50 {
            client.write_all(b"12345").await.unwrap();
            sleep(Duration::from_micros(300)).await;
        }
        sleep(MOMENT).await;
        cancel.cancel();
        client
    });
    let mut buffer = [0; 3];
    loop {
        tokio::select! {
            count = server.read(&mut buffer) => bytes += count?,
            _ = every.tick() => ticks += 1,
            () = token.cancelled() => break,
        }
    }
    // The order may have come before the last bytes were read.
    drop(write.await?);
    bytes += server.read_to_end(&mut Vec::new()).await?;
    Ok(format!("{bytes} {}", ticks > 0))
}

pub(crate) async fn trackers() -> Found {
    let tracker = TaskTracker::new();
    let done = Arc::new(std::sync::atomic::AtomicU32::new(0));
    for _ in 0..5 {
        let done = done.clone();
        tracker.spawn(async move {
            sleep(MOMENT).await;
            done.fetch_add(1, Ordering::SeqCst);
        });
    }
    tracker.close();
    tracker.wait().await;
    Ok(done.load(Ordering::SeqCst).to_string())
}

/// A thread of the program's own uses the runtime by its handle, and a runtime is dropped with
/// tasks that wait.
pub(crate) async fn handles() -> Found {
    let handle = tokio::runtime::Handle::current();
    let thread = std::thread::spawn(move || {
        assert!(tokio::runtime::Handle::try_current().is_err());
        let _entered = handle.enter();
        let task = tokio::spawn(async { tokio::task::try_id().is_some() });
        handle.block_on(async { task.await.unwrap() })
    });
    let found = tokio::task::spawn_blocking(|| thread.join()).await?.map_err(|_| "a panic")?;
    let ended = tokio::task::spawn_blocking(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let waiting = runtime.spawn(sleep(FOR_EVER));
        drop(runtime);
        let wait = tokio::runtime::Handle::current();
        wait.block_on(async { waiting.await.is_err_and(|error| error.is_cancelled()) })
    });
    Ok(format!("{found} {}", ended.await?))
}

/// A runtime has a name and a number, and may be shut down while a guard exists.
pub(crate) async fn names_of_runtimes() -> Found {
    let found = tokio::task::spawn_blocking(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().name("till").build().unwrap();
        let other = tokio::runtime::Runtime::new().unwrap();
        assert!(runtime.handle().id() != other.handle().id());
        assert!(tokio::runtime::worker_index().is_none());
        let _entered = runtime.enter();
        runtime.shutdown_background();
        let name = tokio::runtime::Handle::current().name().map(str::to_owned);
        (name, other.handle().name().is_none())
    });
    Ok(format!("{:?}", found.await?))
}

/// Another executor waits for a time and for a socket, on a thread that runs no task.
pub(crate) async fn another_executor() -> Found {
    let listener = tokio::net::TcpListener::bind(crate::common::ANY_PORT).await?;
    let address = listener.local_addr()?;
    let asking = tokio::task::spawn_blocking(move || {
        futures::executor::block_on(async {
            sleep(MOMENT).await;
            let mut stream = tokio::net::TcpStream::connect(address).await?;
            // However often it is polled, one task waits for it.
            let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
            let before = tasks();
            for _ in 0..100 {
                futures::future::poll_immediate(stream.readable()).await;
            }
            assert!(tasks() <= before + 1, "{before} tasks became {}", tasks());
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.map(|_| answer)
        })
    });
    let (mut stream, _) = listener.accept().await?;
    sleep(MOMENT).await;
    stream.write_all(b"an answer").await?;
    drop(stream);
    Ok(asking.await??)
}

/// Destructors run where tokio runs them: within the runtime, and during the panic of their task.
pub(crate) async fn destructors() -> Found {
    struct SendWhenDropped(std::sync::mpsc::Sender<(bool, bool)>, bool);
    impl Drop for SendWhenDropped {
        fn drop(&mut self) {
            let is_inside = tokio::runtime::Handle::try_current().is_ok();
            self.0.send((is_inside, std::thread::panicking())).unwrap();
            assert!(!self.1, "on purpose");
        }
    }
    let found = tokio::task::spawn_blocking(|| {
        let (sender, drops) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (unbegun, output) =
            (SendWhenDropped(sender.clone(), false), SendWhenDropped(sender.clone(), true));
        let panics = SendWhenDropped(sender, false);
        let panicking = runtime.spawn(async move {
            let _panics = panics;
            panic!("on purpose");
        });
        assert!(runtime.block_on(panicking).unwrap_err().is_panic());
        let ended = runtime.spawn(async { output });
        runtime.block_on(async {
            while !ended.is_finished() {
                tokio::task::yield_now().await;
            }
        });
        drop(ended);
        runtime.spawn(async move {
            let _unbegun = unbegun;
            std::future::pending::<()>().await;
        });
        drop(runtime);
        drops.iter().map(|found| format!("{found:?}")).collect::<Vec<_>>().join(" ")
    });
    Ok(found.await?)
}

pub(crate) async fn yields() -> Found {
    let turns = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let turns = turns.clone();
        tasks.spawn(async move {
            for _ in 0..1000 {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
    }
    tasks.join_all().await;
    Ok(turns.load(Ordering::Relaxed).to_string())
}
