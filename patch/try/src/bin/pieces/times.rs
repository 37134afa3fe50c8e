//! Times, signals, standard streams and files.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_stream::wrappers::IntervalStream;
use tokio_util::time::DelayQueue;

use crate::common::{FOR_EVER, Folder, Found, MOMENT, pair};

pub(crate) async fn sleeps_and_resets() -> Found {
    let begin = Instant::now();
    sleep(MOMENT).await;
    sleep_until(begin + 2 * MOMENT).await;
    assert!(begin.elapsed() >= 2 * MOMENT);
    let later = sleep(FOR_EVER);
    tokio::pin!(later);
    assert!(timeout(MOMENT, later.as_mut()).await.is_err());
    later.as_mut().reset(Instant::now() + MOMENT);
    (&mut later).await;
    later.as_mut().reset(Instant::now() + FOR_EVER);
    assert!(later.now_or_never().is_none());
    let two = tokio::join!(sleep(MOMENT), sleep(2 * MOMENT));
    Ok(format!("{two:?}"))
}

pub(crate) async fn intervals() -> Found {
    let mut ticks = interval(MOMENT);
    let first = ticks.tick().await;
    let second = ticks.tick().await;
    assert!(second - first == MOMENT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    sleep(10 * MOMENT).await;
    let late = ticks.tick().await;
    let next = ticks.tick().await;
    assert!(next > late && (next - first).as_nanos() % MOMENT.as_nanos() == 0);
    let count = IntervalStream::new(interval(MOMENT)).take(5).count().await;
    Ok(count.to_string())
}

/// A time limit ends a loop that never has to wait, whatever it does.
pub(crate) async fn what_is_always_ready_gives_way() -> Found {
    let ticks = async {
        let mut ticks = interval(Duration::from_nanos(1));
        loop {
            ticks.tick().await;
        }
    };
    let sleeps = async {
        loop {
            sleep(Duration::ZERO).await;
        }
    };
    let messages = async {
        let (sender, mut receiver) = mpsc::channel(1);
        loop {
            sender.send(()).await.unwrap();
            receiver.recv().await.unwrap();
        }
    };
    let locks = async {
        let lock = Mutex::new(());
        loop {
            drop(lock.lock().await);
        }
    };
    let (mut one, mut other) = pair().await?;
    let bytes = async {
        loop {
            one.write_all(b"a").await.unwrap();
            other.read_exact(&mut [0]).await.unwrap();
        }
    };
    let yields = async {
        loop {
            tokio::task::yield_now().await;
        }
    };
    let limited: [(_, Result<(), _>); 6] = [
        ("ticks", timeout(MOMENT, ticks).await),
        ("sleeps", timeout(MOMENT, sleeps).await),
        ("messages", timeout(MOMENT, messages).await),
        ("locks", timeout(MOMENT, locks).await),
        ("bytes", timeout(MOMENT, bytes).await),
        ("yields", timeout(MOMENT, yields).await),
    ];
    let ended = limited.iter().filter(|(_, ended)| ended.is_err()).map(|(name, _)| *name);
    Ok(ended.collect::<Vec<_>>().join(" "))
}

pub(crate) async fn queues_of_delays() -> Found {
    let mut queue = DelayQueue::new();
    queue.insert("second", 3 * MOMENT);
    queue.insert("first", MOMENT);
    let never = queue.insert("never", FOR_EVER);
    queue.remove(&never);
    let mut order = Vec::new();
    while let Some(expired) = queue.next().await {
        order.push(expired.into_inner());
    }
    Ok(order.join(" "))
}

/// A read that was given up has taken no bytes.
pub(crate) async fn time_outs_leave_no_bytes_behind() -> Found {
    let (mut client, mut server) = pair().await?;
    let write = tokio::spawn(async move {
        for number in 0..200_u16 {
            client.write_all(&number.to_be_bytes()).await.unwrap();
            if number % 8 == 0 {
                sleep(Duration::from_micros(1500)).await;
            }
        }
    });
    let mut numbers = 0_u16;
    let mut buffer = [0; 2];
    let mut filled = 0;
    while numbers < 200 {
        let read = timeout(Duration::from_micros(700), server.read(&mut buffer[filled..]));
        if let Ok(count) = read.await {
            filled += count?;
        }
        if filled == 2 {
            assert_eq!(u16::from_be_bytes(buffer), numbers);
            (numbers, filled) = (numbers + 1, 0);
        }
    }
    write.await?;
    Ok(numbers.to_string())
}

pub(crate) async fn signals() -> Found {
    use tokio::signal::unix::{SignalKind, signal};
    let mut users = signal(SignalKind::user_defined1())?;
    let mut others = signal(SignalKind::user_defined1())?;
    assert!(timeout(MOMENT, users.recv()).await.is_err());
    for _ in 0..3 {
        let this = std::process::id().to_string();
        let sent = std::process::Command::new("kill").args(["-USR1", &this]).status()?;
        assert!(sent.success());
        users.recv().await.ok_or("the end")?;
        others.recv().await.ok_or("the end")?;
    }
    Ok("three times".into())
}

pub(crate) async fn standard_streams() -> Found {
    let mut output = tokio::io::stdout();
    output.write_all(b"to standard output\n").await?;
    output.flush().await?;
    let mut text = String::new();
    tokio::io::stdin().read_to_string(&mut text).await?;
    Ok(text)
}

pub(crate) async fn files() -> Found {
    use tokio::io::AsyncSeekExt;
    let folder = Folder::new("files")?;
    let path = folder.0.join("file");
    let mut file = tokio::fs::File::create_new(&path).await?;
    file.write_all(b"one two three").await?;
    file.rewind().await?;
    let mut word = [0; 4];
    file.read_exact(&mut word).await?;
    file.write_all(b"TWO").await?;
    file.flush().await?;
    let mut rest = String::new();
    file.read_to_string(&mut rest).await?;
    assert_eq!(file.metadata().await?.len(), 13);
    file.sync_all().await?;
    drop(file.into_std().await);
    tokio::fs::copy(&path, folder.0.join("copy")).await?;
    let (mut entries, mut names) = (tokio::fs::read_dir(&folder.0).await?, BTreeSet::new());
    while let Some(entry) = entries.next_entry().await? {
        names.insert(entry.file_name().to_string_lossy().into_owned());
    }
    let mut parts = tokio::fs::File::create(&path).await?;
    parts.set_max_buf_size(5);
    assert_eq!(parts.try_clone().await?.max_buf_size(), 5);
    let slices = [std::io::IoSlice::new(b"one"), std::io::IoSlice::new(b"two")];
    assert_eq!(parts.write_vectored(&slices).await?, 5);
    parts.flush().await?;
    assert_eq!(tokio::fs::read(&path).await?, b"onetw");
    let text = tokio::fs::read_to_string(folder.0.join("copy")).await?;
    tokio::fs::remove_file(path).await?;
    Ok(format!("{text} {rest:?} {names:?}"))
}
