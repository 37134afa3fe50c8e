//! Pieces about runtimes: their threads, their ends, and the budgets of their tasks.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Handle, LocalOptions, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, block_in_place, coop, spawn_local, yield_now};
use tokio::time::{self, Instant, sleep, timeout};

use crate::common::{Found, pair};

/// Runs `work` on a thread of its own, outside of all runtimes.
async fn outside<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Box<dyn std::error::Error>> {
    let (sender, receiver) = oneshot::channel();
    thread::spawn(move || sender.send(work()).is_ok());
    Ok(receiver.await?)
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The program may use the token of `thread::park` for itself, within `block_on` and around it.
pub(crate) async fn tokens_of_threads() -> Found {
    let found = outside(|| {
        let runtime = one_thread();
        let mut polls = 0;
        runtime.handle().block_on(poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            thread::current().unpark();
            thread::park();
            if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
        }));
        let (sender, receiver) = oneshot::channel();
        thread::current().unpark();
        let sending = thread::spawn(|| sender.send(7).unwrap());
        let received = runtime.handle().block_on(receiver).unwrap();
        sending.join().unwrap();
        thread::park();
        (polls, received)
    });
    Ok(format!("{:?}", found.await?))
}

/// `Handle::block_on` may hold up its thread on any runtime. Tasks of a `LocalSet` may not.
pub(crate) async fn blocking_where_it_may() -> Found {
    let found = outside(|| {
        let runtime = one_thread();
        let nested = runtime.handle().block_on(async {
            block_in_place(|| {
                Handle::current().block_on(async {
                    yield_now().await;
                    5
                })
            })
        });
        let refused = LocalSet::new().block_on(&runtime, async {
            spawn_local(async { block_in_place(|| ()) }).await.unwrap_err().is_panic()
        });
        (nested, refused)
    });
    Ok(format!("{:?}", found.await?))
}

/// A task that blocks its thread could wait for ever for other tasks of the thread. tokio panics.
pub(crate) async fn blocking_where_it_may_not() -> Found {
    let (sender, mut receiver) = mpsc::channel::<()>(1);
    let task = tokio::spawn(async move { receiver.blocking_recv() });
    let refused = task.await.unwrap_err().is_panic();
    let is_closed = sender.is_closed();
    let lock = Arc::new(tokio::sync::Mutex::new(7));
    let other = lock.clone();
    let locks = tokio::spawn(async move { *other.blocking_lock() });
    let locks_refused = locks.await.unwrap_err().is_panic();
    // Where the thread may block, so may these calls.
    let (sender, mut receiver) = mpsc::channel(1);
    let sending = tokio::task::spawn_blocking(move || sender.blocking_send(5).is_ok());
    let received = tokio::spawn(async move { block_in_place(|| receiver.blocking_recv()) });
    let (sent, received) = (sending.await?, received.await?);
    let locked = tokio::task::spawn_blocking(move || *lock.blocking_lock()).await?;
    Ok(format!("{refused} {is_closed} {locks_refused} {sent} {received:?} {locked}"))
}

/// Without a runtime there is nothing that could wait.
pub(crate) async fn nothing_waits_outside() -> Found {
    let panics = |work: fn()| move || std::panic::catch_unwind(work).is_err();
    let found = [
        outside(panics(|| drop(sleep(Duration::ZERO)))).await?,
        outside(panics(|| drop(time::interval(Duration::from_secs(1))))).await?,
        outside(panics(|| drop(timeout(Duration::ZERO, async {})))).await?,
        outside(panics(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            drop(tokio::net::TcpListener::from_std(listener));
        }))
        .await?,
    ];
    Ok(format!("{found:?}"))
}

/// Blocking work that waits for a thread when its runtime ends still runs.
pub(crate) async fn queued_blocking_work() -> Found {
    let found = outside(|| {
        let runtime = Builder::new_multi_thread().max_blocking_threads(1).build().unwrap();
        let done = Arc::new(AtomicU32::new(0));
        for _ in 0..5 {
            let done = done.clone();
            runtime.spawn_blocking(move || done.fetch_add(1, Ordering::SeqCst));
        }
        drop(runtime);
        done.load(Ordering::SeqCst)
    });
    Ok(found.await?.to_string())
}

/// A thread may keep a runtime until its end.
pub(crate) async fn runtimes_of_threads() -> Found {
    thread_local! {
        static KEPT: std::cell::RefCell<Option<Runtime>> = const { std::cell::RefCell::new(None) };
    }
    let found = outside(|| {
        let thread = thread::spawn(|| {
            KEPT.set(Some(one_thread()));
            one_thread().block_on(async { 4 })
        });
        thread.join().unwrap()
    });
    Ok(found.await?.to_string())
}

/// A local runtime takes local tasks while it is entered, on its own thread.
pub(crate) async fn local_guards() -> Found {
    let found = outside(|| {
        let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
        let spawned = {
            let _entered = runtime.enter();
            spawn_local(async { std::rc::Rc::new(3) })
        };
        let handle = runtime.handle().clone();
        let elsewhere = thread::spawn(move || {
            let _entered = handle.enter();
            spawn_local(async {});
        });
        let refused = elsewhere.join().is_err();
        (*runtime.block_on(spawned).unwrap(), refused)
    });
    Ok(format!("{:?}", found.await?))
}

/// Whether a task gives way before it has received all messages.
async fn gives_way() -> bool {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    (0..1000).for_each(|number| sender.send(number).unwrap());
    poll_fn(|context| {
        let received = (0..1000).all(|_| receiver.poll_recv(context).is_ready());
        Poll::Ready(!received)
    })
    .await
}

pub(crate) async fn budgets() -> Found {
    let in_main = gives_way().await;
    let in_task = tokio::spawn(gives_way()).await?;
    let unlimited = coop::unconstrained(gives_way()).await;
    let in_block = block_in_place(|| futures::executor::block_on(gives_way()));
    let after_block = tokio::spawn(async {
        block_in_place(|| {});
        gives_way().await
    });
    let after_block = after_block.await?;
    // Each turn has a full budget, so that the task ends.
    let (sender, mut receiver) = mpsc::unbounded_channel();
    (0..1000).for_each(|number| sender.send(number).unwrap());
    drop(sender);
    let mut sum = 0;
    while let Some(number) = receiver.recv().await {
        sum += number;
    }
    Ok(format!("{in_main} {in_task} {unlimited} {in_block} {after_block} {sum}"))
}

/// A task that only yields finds out that one of its other futures is ready.
pub(crate) async fn yields_beside_a_socket() -> Found {
    let (mut client, mut server) = pair().await?;
    let mut reading = FuturesUnordered::new();
    reading.push(async move { server.read_u8().await });
    assert!(futures::poll!(reading.next()).is_pending());
    client.write_u8(9).await?;
    loop {
        if let Poll::Ready(read) = futures::poll!(reading.next()) {
            return Ok(read.ok_or("a future")??.to_string());
        }
        yield_now().await;
    }
}

/// Hours pass at once on a clock that stands. Under kernel threads no clock can stand, and the
/// builder says so.
pub(crate) async fn paused_clocks() -> Found {
    let found = outside(|| {
        let built = Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = match built {
            Ok(runtime) => runtime,
            Err(error) if std::env::var("DUALITY_WORLD").is_ok_and(|world| world == "threads") => {
                assert!(error.to_string().contains("set DUALITY_WORLD"), "{error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        runtime.block_on(async {
            let (begin, hour) = (Instant::now(), Duration::from_secs(3600));
            let waiting = tokio::spawn(sleep(2 * hour));
            assert!(timeout(hour, std::future::pending::<()>()).await.is_err());
            assert_eq!(begin.elapsed(), hour);
            // Blocking work counts as something that happens.
            tokio::task::spawn_blocking(|| thread::sleep(Duration::from_millis(20))).await.unwrap();
            assert_eq!(begin.elapsed(), hour);
            // A sleep begins when it is polled first, but its time counts from its making.
            let later = tokio::spawn(sleep(2 * hour));
            time::advance(hour).await;
            let is_over = (waiting.is_finished(), later.is_finished());
            assert_eq!(is_over, (true, false));
            waiting.await.unwrap();
            assert_eq!(begin.elapsed(), 2 * hour);
            time::resume();
            sleep(Duration::from_millis(5)).await;
            time::pause();
            later.await.unwrap();
            assert_eq!(begin.elapsed().as_secs() / 3600, 3);
        });
    });
    found.await?;
    Ok("at once, or refused".into())
}
