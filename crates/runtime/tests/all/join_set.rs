//! Sets of tasks, what a panic leaves, and Unix sockets, in every world.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duality_runtime::net::ListenOptions;
use duality_runtime::net::unix::{self, UnixListener, UnixStream};
use duality_runtime::task::{self, JoinSet};
use duality_runtime::time::{Duration, now, sleep, timeout, timeout_at};
use duality_runtime::{join, select};

const MOMENT: Duration = Duration::from_millis(2);
const FOR_EVER: Duration = Duration::from_secs(3600);

duality_kit::in_every_world! {
    results_come_as_tasks_end
    a_wait_that_is_given_up_loses_no_result
    the_drop_of_a_set_aborts_its_tasks
    a_panic_and_an_abort_are_told_apart
    detached_tasks_run_on
    the_payload_of_a_panic_arrives
    a_panic_within_a_time_limit_leaves_no_limit
    one_deadline_for_several_operations
    work_elsewhere_is_cut_by_a_time_limit
    a_unix_listener_accepts
    a_unix_listener_waits_beside_other_things
    a_pair_is_connected
}

async fn results_come_as_tasks_end() {
    let mut set = JoinSet::new();
    for number in [9, 1, 5] {
        set.spawn(async move {
            sleep(number * MOMENT).await;
            number
        })
        .unwrap();
    }
    assert_eq!(set.len(), 3);
    let mut seen = Vec::new();
    while let Some(number) = set.join_next().await {
        seen.push(number.unwrap());
    }
    assert_eq!(seen, [1, 5, 9]);
    assert_eq!(set.join_next().await, None);
    for number in 0..10 {
        set.spawn(async move { number }).unwrap();
    }
    let mut all = set.join_all().await;
    all.sort_unstable();
    assert!(all.into_iter().eq(0..10));
}

async fn a_wait_that_is_given_up_loses_no_result() {
    let mut set = JoinSet::new();
    for number in 0..20_u32 {
        set.spawn(async move {
            sleep(number % 5 * MOMENT / 2).await;
            number
        })
        .unwrap();
    }
    let mut seen = Vec::new();
    loop {
        select! {
            () = task::yield_now() => {}
            Some(number) = set.join_next() => seen.push(number.unwrap()),
        }
        select! {
            biased;
            Some(number) = set.join_next() => seen.push(number.unwrap()),
            () = sleep(MOMENT / 8), if !set.is_empty() => {}
            else => break,
        }
        if let Some(number) = set.try_join_next() {
            seen.push(number.unwrap());
        }
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..20));
}

struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn the_drop_of_a_set_aborts_its_tasks() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    for _ in 0..5 {
        let counts = Counts(dropped.clone());
        set.spawn(async move {
            sleep(FOR_EVER).await;
            drop(counts);
        })
        .unwrap();
    }
    sleep(MOMENT).await;
    drop(set);
    while dropped.load(Ordering::SeqCst) < 5 {
        sleep(MOMENT).await;
    }
}

async fn a_panic_and_an_abort_are_told_apart() {
    let mut set = JoinSet::new();
    let abort = set.spawn(async { sleep(FOR_EVER).await }).unwrap();
    set.spawn(async { panic!("on purpose") }).unwrap();
    let error = set.join_next().await.unwrap().unwrap_err();
    assert!(error.is_panic() && !error.is_cancelled());
    abort.abort();
    let error = set.join_next().await.unwrap().unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert!(error.try_into_panic().is_err());
    set.spawn(async { sleep(FOR_EVER).await }).unwrap();
    set.shutdown().await;
    assert!(set.is_empty());
}

async fn detached_tasks_run_on() {
    let mut set = JoinSet::new();
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let ended = ended.clone();
        set.spawn(async move {
            sleep(MOMENT).await;
            ended.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    }
    set.detach_all();
    assert_eq!(set.join_next().await, None);
    drop(set);
    while ended.load(Ordering::SeqCst) < 3 {
        sleep(MOMENT).await;
    }
}

async fn the_payload_of_a_panic_arrives() {
    let error = task::spawn(async { std::panic::panic_any(7_u32) }).unwrap().await.unwrap_err();
    let error = std::io::Error::from(error);
    assert_eq!(error.to_string(), "the task panicked");
    let late = async {
        sleep(MOMENT).await;
        let number = 3;
        assert_eq!(number, 4, "a number");
    };
    let error = task::spawn(late).unwrap().await.unwrap_err();
    assert!(error.to_string().contains("a number"), "{error}");
    let payload = error.into_panic();
    assert!(payload.downcast_ref::<String>().unwrap().contains("a number"));
}

async fn a_panic_within_a_time_limit_leaves_no_limit() {
    let limited = timeout(10 * MOMENT, async {
        sleep(MOMENT).await;
        panic!("on purpose");
    });
    assert!(task::spawn(limited).unwrap().await.unwrap_err().is_panic());
    let gathered = async {
        select! {
            () = sleep(MOMENT) => panic!("on purpose"),
            () = sleep(FOR_EVER) => {}
        }
    };
    assert!(task::spawn(gathered).unwrap().await.unwrap_err().is_panic());
    sleep(MOMENT).await;
}

async fn one_deadline_for_several_operations() {
    let deadline = now() + 2 * MOMENT;
    let mut rounds = 0;
    while timeout_at(deadline, sleep(MOMENT / 4)).await.is_ok() {
        rounds += 1;
    }
    assert!(now() >= deadline && rounds < 9);
    assert!(timeout_at(deadline, sleep(MOMENT)).await.is_err());
}

/// `lookup_host` asks a resolver that may block for long, by the same way.
async fn work_elsewhere_is_cut_by_a_time_limit() {
    let (release, blocks) = std::sync::mpsc::channel::<()>();
    let work = task::offload(move || blocks.recv());
    assert!(timeout(MOMENT, work).await.is_err());
    drop(release);
}

fn listener() -> (tempfile::TempDir, std::path::PathBuf, UnixListener) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path, &ListenOptions::default()).unwrap();
    (folder, path, listener)
}

async fn a_unix_listener_accepts() {
    let (_folder, path, mut listener) = listener();
    let again = UnixListener::bind(&path, &ListenOptions::default());
    assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let clients = task::spawn(async move {
        for number in 0..20_u8 {
            let mut stream = UnixStream::connect_unix(&path).await.unwrap();
            stream.write_all(&[number; 3]).await.unwrap();
            let mut back = [0; 3];
            stream.read_exact(&mut back).await.unwrap();
            assert_eq!(back, [number; 3]);
        }
    });
    for number in 0..20 {
        let mut stream = listener.accept().await.unwrap();
        let mut buffer = [0; 3];
        stream.read_exact(&mut buffer).await.unwrap();
        assert_eq!(buffer, [number; 3]);
        stream.write_all(&buffer).await.unwrap();
        assert_eq!(stream.read(&mut buffer).await.unwrap(), 0);
    }
    clients.unwrap().await.unwrap();
}

async fn a_unix_listener_waits_beside_other_things() {
    let (_folder, path, mut listener) = listener();
    let is_late = select! {
        accepted = listener.accept() => accepted.is_err(),
        () = sleep(MOMENT) => true,
    };
    assert!(is_late);
    assert!(timeout(MOMENT, listener.accept()).await.is_err());
    let (accepted, connected) = join!(listener.accept(), UnixStream::connect_unix(&path));
    drop(connected.unwrap());
    assert_eq!(accepted.unwrap().read(&mut [0]).await.unwrap(), 0);
}

async fn a_pair_is_connected() {
    let (mut one, mut other) = unix::pair().unwrap();
    let task = task::spawn(async move {
        let mut buffer = [0; 4];
        other.read_exact(&mut buffer).await.unwrap();
        other.write_all(&buffer).await.unwrap();
    });
    one.write_all(b"ping").await.unwrap();
    let mut buffer = [0; 8];
    let mut read = 0;
    while read < 4 {
        read += one.read(&mut buffer[read..]).await.unwrap();
    }
    assert_eq!(&buffer[..4], b"ping");
    task.unwrap().await.unwrap();
    assert_eq!(one.read(&mut buffer).await.unwrap(), 0);
}
