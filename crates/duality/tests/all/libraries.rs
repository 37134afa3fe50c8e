//! Other libraries on our streams and tasks, in every world: what Duality does not have itself.

use duality_runtime::net::unix;
use duality_runtime::select;
use duality_runtime::task::{self, gather};
use duality_runtime::time::{Duration, sleep, timeout};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::{CancellationToken, PollSemaphore};
use tower::{ServiceBuilder, ServiceExt, service_fn};

const MOMENT: Duration = Duration::from_millis(2);

duality_kit::in_every_world! {
    tokio_copies_and_splits
    tokio_reads_lines
    tokio_channels_and_locks_wait
    a_token_of_tokio_util_cancels
    futures_run_in_one_task
    a_service_of_tower_is_called
}

async fn tokio_copies_and_splits() {
    let ((mut one, left), (right, mut other)) = (unix::pair().unwrap(), unix::pair().unwrap());
    let relay = task::spawn(gather(async move {
        let (mut left, mut right) = (left, right);
        tokio::io::copy_bidirectional(&mut left, &mut right).await
    }));
    let echo = task::spawn(gather(async move {
        let (mut reads, mut writes) = tokio::io::split(&mut other);
        let copied = tokio::io::copy(&mut reads, &mut writes).await;
        writes.shutdown().await.unwrap();
        copied
    }));
    gather(async {
        for number in 0..20 {
            one.write_u32(number).await.unwrap();
            assert_eq!(one.read_u32().await.unwrap(), number);
        }
        AsyncWriteExt::shutdown(&mut one).await.unwrap();
        assert_eq!(AsyncReadExt::read(&mut one, &mut [0]).await.unwrap(), 0);
    })
    .await;
    assert_eq!(echo.unwrap().await.unwrap().unwrap(), 80);
    assert_eq!(relay.unwrap().await.unwrap().unwrap(), (80, 80));
}

async fn tokio_reads_lines() {
    let (mut one, other) = unix::pair().unwrap();
    let writing = task::spawn(async move {
        for number in 0..50 {
            one.write_all(format!("line {number}\n").as_bytes()).await.unwrap();
        }
    });
    let lines = gather(async move {
        let mut lines = BufReader::new(other).lines();
        let mut count = 0;
        while let Some(line) = lines.next_line().await.unwrap() {
            assert_eq!(line, format!("line {count}"));
            count += 1;
        }
        count
    });
    assert_eq!(lines.await, 50);
    writing.unwrap().await.unwrap();
}

async fn tokio_channels_and_locks_wait() {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let lock = std::sync::Arc::new(tokio::sync::RwLock::new(0));
    let own = lock.clone();
    let sending = task::spawn(async move {
        for number in 0..50 {
            sender.send(number).await.unwrap();
            *own.write().await += 1;
        }
    });
    let mut seen = 0;
    loop {
        select! {
            Some(number) = receiver.recv() => {
                assert_eq!(number, seen);
                seen += 1;
            }
            () = sleep(Duration::from_secs(3600)), if *lock.read().await > 50 => unreachable!(),
            else => break,
        }
    }
    sending.unwrap().await.unwrap();
    assert_eq!((seen, *lock.read().await), (50, 50));
    let nothing = timeout(MOMENT, tokio::sync::Notify::new().notified()).await;
    assert!(nothing.is_err());
}

async fn a_token_of_tokio_util_cancels() {
    let token = CancellationToken::new();
    let tasks = [1, 2, 3].map(|_| {
        let child = token.child_token();
        task::spawn(async move { child.cancelled().await }).unwrap()
    });
    sleep(MOMENT).await;
    token.cancel();
    for task in tasks {
        task.await.unwrap();
    }
    let mut permits = PollSemaphore::new(std::sync::Arc::new(tokio::sync::Semaphore::new(1)));
    assert!(gather(std::future::poll_fn(|context| permits.poll_acquire(context))).await.is_some());
}

async fn futures_run_in_one_task() {
    let order = gather(async {
        let wait = |number: u32| async move {
            sleep(number * MOMENT).await;
            number
        };
        let running: FuturesUnordered<_> = [9, 1, 5].into_iter().map(wait).collect();
        running.collect::<Vec<_>>().await
    });
    assert_eq!(order.await, [1, 5, 9]);
    let first = async {
        sleep(MOMENT).await;
        Ok::<_, ()>(1)
    };
    let both = gather(futures_util::future::try_join(first, async { Ok(2) }));
    assert_eq!(both.await, Ok((1, 2)));
}

async fn a_service_of_tower_is_called() {
    let service = service_fn(|number: u32| async move {
        sleep(MOMENT).await;
        Ok::<_, std::io::Error>(number * 2)
    });
    let service = ServiceBuilder::new().map_request(|number: u32| number + 1).service(service);
    assert_eq!(service.oneshot(4).await.unwrap(), 10);
}
