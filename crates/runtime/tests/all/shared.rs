//! A descriptor that several tasks use at once, and what else poll-style runtimes are built of.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use duality_poller::{Direction, Kind};
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::net::SharedDescriptor;
use duality_runtime::task::{self, gather};
use duality_runtime::time::{Alarm, Duration, Instant, sleep, timeout};
use duality_runtime::{block_on, join};
use rustix::pipe::{PipeFlags, pipe_with};

const MOMENT: Duration = Duration::from_millis(3);
const FOR_EVER: Duration = Duration::from_secs(3600);

duality_kit::in_every_world! {
    bytes_go_through_a_pipe
    every_waiting_task_is_woken
    futures_of_one_task_wait_for_one_descriptor
    a_wait_that_is_given_up_takes_no_bytes
    an_alarm_moves
    a_moved_alarm_wakes_its_task
}

fn pipe() -> (Arc<SharedDescriptor>, Arc<SharedDescriptor>) {
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let shared = |end: OwnedFd| Arc::new(SharedDescriptor::new(end).unwrap());
    (shared(reads), shared(writes))
}

async fn read(from: &SharedDescriptor, room: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; room];
    let count = poll_fn(|context| {
        from.poll_moving(context, Direction::Read, room, |pipe| {
            Ok(rustix::io::read(pipe, &mut bytes)?)
        })
    });
    let count = gather(count).await?;
    bytes.truncate(count);
    Ok(bytes)
}

async fn write(to: &SharedDescriptor, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let write = poll_fn(|context| {
            to.poll_moving(context, Direction::Write, bytes.len(), |pipe| {
                Ok(rustix::io::write(pipe, bytes)?)
            })
        });
        bytes = &bytes[gather(write).await.unwrap()..];
    }
}

/// More bytes than a pipe holds, so both sides wait.
async fn bytes_go_through_a_pipe() {
    const BYTES: usize = 1_000_000;
    let (reads, writes) = pipe();
    let sent: Vec<u8> = (0..BYTES).map(|number| (number % 251) as u8).collect();
    let writer = sent.clone();
    let written = task::spawn(async move { write(&writes, &writer).await }).unwrap();
    let mut heard = Vec::new();
    loop {
        match read(&reads, 10_000).await.unwrap() {
            bytes if bytes.is_empty() => break,
            bytes => heard.extend(bytes),
        }
    }
    written.await.unwrap();
    assert!(heard == sent);
}

async fn every_waiting_task_is_woken() {
    let (reads, writes) = pipe();
    let tasks = [(); 5].map(|()| {
        let reads = reads.clone();
        task::spawn(async move { read(&reads, 1).await.unwrap() }).unwrap()
    });
    for _ in 0..tasks.len() {
        sleep(MOMENT).await;
        write(&writes, b"x").await;
    }
    for task in tasks {
        assert_eq!(timeout(FOR_EVER, task).await.unwrap().unwrap(), b"x");
    }
}

/// Each future has a waker of its own, as in `FuturesUnordered`.
async fn futures_of_one_task_wait_for_one_descriptor() {
    struct Own<F>(F, Arc<Told>);
    struct Told(Waker);
    impl std::task::Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.wake_by_ref();
        }
    }
    impl<F: Future + Unpin> Future for Own<F> {
        type Output = F::Output;
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            if !self.1.0.will_wake(context.waker()) {
                self.1 = Arc::new(Told(context.waker().clone()));
            }
            let waker = Waker::from(self.1.clone());
            Pin::new(&mut self.0).poll(&mut Context::from_waker(&waker))
        }
    }
    let own = |future| Own(future, Arc::new(Told(Waker::noop().clone())));
    let (reads, writes) = pipe();
    let one = own(Box::pin(read(&reads, 1)));
    let other = own(Box::pin(read(&reads, 1)));
    let send = async {
        for byte in [b"a", b"b"] {
            sleep(MOMENT).await;
            write(&writes, byte).await;
        }
    };
    let (one, other, ()) = join!(one, other, send);
    let mut both = [one.unwrap(), other.unwrap()].concat();
    both.sort_unstable();
    assert_eq!(both, b"ab");
}

async fn a_wait_that_is_given_up_takes_no_bytes() {
    let (reads, writes) = pipe();
    let sender = task::spawn(async move {
        for byte in 0..50 {
            write(&writes, &[byte]).await;
            sleep(Duration::from_micros(400)).await;
        }
    });
    let (mut heard, mut ended) = (Vec::new(), false);
    while !ended {
        if let Ok(bytes) = timeout(Duration::from_micros(300), read(&reads, 4)).await {
            let bytes = bytes.unwrap();
            ended = bytes.is_empty();
            heard.extend(bytes);
        }
    }
    sender.unwrap().await.unwrap();
    assert_eq!(heard, Vec::from_iter(0..50));
}

async fn an_alarm_moves() {
    let begin = Instant::now();
    let mut alarm = pin!(Alarm::new(Some(begin + FOR_EVER)));
    assert!(timeout(MOMENT, alarm.as_mut()).await.is_err());
    alarm.move_to(Some(begin + 3 * MOMENT));
    gather(alarm.as_mut()).await;
    assert!(begin.elapsed() >= 3 * MOMENT);
    alarm.move_to(None);
    assert!(timeout(MOMENT, alarm).await.is_err());
}

/// The task that polled the alarm is woken at the new deadline, earlier or later, without a poll in
/// between.
async fn a_moved_alarm_wakes_its_task() {
    for first in [FOR_EVER, MOMENT] {
        let begin = Instant::now();
        let mut alarm = pin!(Alarm::new(Some(begin + first)));
        let mut is_moved = false;
        let waiting = poll_fn(|context| {
            if begin.elapsed() >= 3 * MOMENT {
                return Poll::Ready(());
            }
            if !is_moved {
                is_moved = true;
                assert!(alarm.as_mut().poll(context).is_pending());
                alarm.move_to(Some(begin + 3 * MOMENT));
            }
            Poll::Pending
        });
        timeout(Duration::from_secs(20), gather(waiting)).await.unwrap();
    }
}

/// A task in place, and tasks of two loops, wait for one descriptor.
#[test]
fn worlds_share_a_descriptor() {
    let (reads, writes) = pipe();
    let threads = [None, Some(Kind::Epoll), Some(Kind::Poll), Some(Kind::Select)].map(|kind| {
        let reads = reads.clone();
        thread::spawn(move || {
            let work = async move {
                let mut count = 0;
                while read(&reads, 1).await.unwrap() == b"x" {
                    count += 1;
                }
                count
            };
            match kind {
                None => block_on(work),
                Some(kind) => {
                    EventLoop::new(kind.open().unwrap(), LoopWorld::Suspend).unwrap().run(work)
                }
            }
        })
    });
    block_on(async {
        for _ in 0..500 {
            write(&writes, b"x").await;
        }
    });
    drop(writes);
    let counts = threads.map(|thread| thread.join().unwrap());
    assert_eq!(counts.iter().sum::<u32>(), 500, "{counts:?}");
}

#[test]
fn tasks_go_on_in_the_next_run_of_their_loop() {
    for world in [LoopWorld::Suspend, LoopWorld::Park { stack_size: 256 * 1024 }] {
        let mut event_loop = EventLoop::new(Kind::Epoll.open().unwrap(), world).unwrap();
        let text = String::from("borrowed");
        let task = event_loop.run_until(async {
            assert_eq!(text, "borrowed");
            task::spawn(async {
                sleep(MOMENT).await;
                7
            })
        });
        let task = task.unwrap().unwrap().unwrap();
        assert_eq!(event_loop.run_until(task).unwrap().unwrap(), Ok(7));
        let panicked = event_loop.run_until(async {
            assert_ne!(text, "borrowed", "on purpose");
        });
        assert!(panicked.unwrap().unwrap_err().is::<String>());
        assert_eq!(event_loop.run_until(async { text.len() }).unwrap().unwrap(), 8);
    }
}

/// The tasks that are left go with their loop, within it.
#[test]
fn a_loop_drops_its_tasks() {
    let kept = Arc::new(());
    let mut event_loop = EventLoop::new(Kind::Epoll.open().unwrap(), LoopWorld::Suspend).unwrap();
    let in_task = kept.clone();
    let root = Rc::new(());
    event_loop
        .run_until(async {
            let _root = root.clone();
            let (reads, _writes) = pipe();
            drop(task::spawn(async move {
                let (_writes, _kept) = (_writes, in_task);
                read(&reads, 1).await
            }));
            task::yield_now().await;
        })
        .unwrap()
        .unwrap();
    assert_eq!((Rc::strong_count(&root), Arc::strong_count(&kept)), (1, 2));
    drop(event_loop);
    assert_eq!(Arc::strong_count(&kept), 1);
}
