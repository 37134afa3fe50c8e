//! Properties of what tasks share, under orders and times that seeds draw. Each scenario runs on a
//! loop with state machines, on a loop with stacks, and in a program of kernel threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duality_runtime::sync::broadcast::{self, RecvError};
use duality_runtime::sync::channel::bounded;
use duality_runtime::sync::{Barrier, CancellationToken, RwLock, watch};
use duality_runtime::task::{self, JoinHandle, JoinSet};
use duality_runtime::time::{sleep, timeout};
use duality_runtime::{block_on, select};
use duality_simulate::{Faults, Net, seeds};

const SEEDS: u64 = 20;
const MOMENT: Duration = Duration::from_millis(10);

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs `scenario` with each seed. Each seed runs twice, and must take the same decisions.
fn holds(scenario: fn(Net) -> Running) {
    let most = Duration::from_secs(3600);
    let run = || seeds(0..SEEDS).lasting(most).faults(Faults::NONE);
    run().in_both_waits().run(move |net| async move {
        let own = net.clone();
        net.host("loop", move || scenario(own.clone())).ended().await
    });
    run().run(move |net| async move {
        let own = net.clone();
        net.program("threads", move || block_on(scenario(own.clone()))).ended().await
    });
}

/// Has the seed decide how long a task waits, if at all.
async fn dawdle(net: &Net) {
    match net.draw(4) {
        0 => {}
        1 => task::yield_now().await,
        _ => sleep(net.draw_time(MOMENT)).await,
    }
}

fn start<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    task::spawn(future).expect("a host has room for a task")
}

async fn all(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.await.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The number of readers, or a thousand for each writer.
struct Within(Arc<AtomicUsize>, usize);

impl Within {
    fn enter(count: &Arc<AtomicUsize>, own: usize) -> Self {
        let others = count.fetch_add(own, Ordering::SeqCst);
        assert!(others == 0 || (own == 1 && others < 1000), "{own} beside {others}");
        Self(count.clone(), own)
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::SeqCst);
    }
}

#[test]
fn a_writer_is_alone() {
    holds(|net| {
        Box::pin(async move {
            let lock = Arc::new(RwLock::new(0));
            let within = Arc::new(AtomicUsize::new(0));
            let mut tasks = Vec::new();
            for _ in 0..5 {
                let (net, lock, within) = (net.clone(), lock.clone(), within.clone());
                tasks.push(start(async move {
                    for _ in 0..4 {
                        dawdle(&net).await;
                        let limit = net.draw_time(2 * MOMENT);
                        if net.chance(40) {
                            let Ok(mut value) = timeout(limit, lock.write()).await else {
                                continue;
                            };
                            let counts = Within::enter(&within, 1000);
                            dawdle(&net).await;
                            *value += 1;
                            drop(counts);
                            if net.chance(30) {
                                let value = value.downgrade();
                                let _counts = Within::enter(&within, 1);
                                dawdle(&net).await;
                                drop(value);
                            }
                        } else {
                            let Ok(value) = timeout(limit, lock.read()).await else { continue };
                            let counts = Within::enter(&within, 1);
                            let before = *value;
                            dawdle(&net).await;
                            assert_eq!(*value, before);
                            drop(counts);
                        }
                    }
                }));
            }
            all(tasks).await;
            assert!(lock.try_write().is_some(), "no guard is left");
        })
    });
}

#[test]
fn a_receiver_sees_or_misses_each_value() {
    holds(|net| {
        Box::pin(async move {
            let (sender, first) = broadcast::channel(3);
            let mut tasks = Vec::new();
            for mut receiver in [sender.subscribe(), sender.subscribe(), first] {
                let net = net.clone();
                tasks.push(start(async move {
                    let mut next = 0;
                    loop {
                        let limit = net.draw_time(MOMENT);
                        match timeout(limit, receiver.recv()).await {
                            Ok(Ok(value)) => {
                                assert_eq!(value, next);
                                next += 1;
                            }
                            Ok(Err(RecvError::Lagged(missed))) => next += missed,
                            Ok(Err(RecvError::Closed)) => break,
                            Err(_) => {}
                        }
                        if net.chance(30) {
                            dawdle(&net).await;
                        }
                    }
                    assert_eq!(next, 40, "all values are seen or missed");
                }));
            }
            for value in 0..40 {
                assert_eq!(sender.send(value), Ok(3));
                if net.chance(30) {
                    dawdle(&net).await;
                }
            }
            drop(sender);
            all(tasks).await;
        })
    });
}

#[test]
fn a_watcher_sees_the_last_value() {
    holds(|net| {
        Box::pin(async move {
            let (sender, receiver) = watch::channel(0);
            let mut tasks = Vec::new();
            for _ in 0..4 {
                let (net, mut receiver) = (net.clone(), receiver.clone());
                tasks.push(start(async move {
                    let mut last = 0;
                    while last < 20 {
                        if let Ok(changed) =
                            timeout(net.draw_time(MOMENT), receiver.changed()).await
                        {
                            changed.expect("the last value comes before the end");
                        }
                        let now = *receiver.borrow_and_update();
                        assert!(now >= last, "{now} after {last}");
                        last = now;
                        dawdle(&net).await;
                    }
                    assert!(receiver.changed().await.is_err());
                }));
            }
            drop(receiver);
            for value in 1..=20 {
                sender.send_if_modified(|kept| {
                    *kept = value;
                    true
                });
                dawdle(&net).await;
            }
            drop(sender);
            all(tasks).await;
        })
    });
}

#[test]
fn a_barrier_opens_for_all_of_a_round() {
    holds(|net| {
        Box::pin(async move {
            let barrier = Arc::new(Barrier::new(3));
            let come = Arc::new(AtomicUsize::new(0));
            let leads = Arc::new(AtomicUsize::new(0));
            let mut tasks = Vec::new();
            for _ in 0..3 {
                let (net, barrier) = (net.clone(), barrier.clone());
                let (come, leads) = (come.clone(), leads.clone());
                tasks.push(start(async move {
                    for round in 1..=4 {
                        dawdle(&net).await;
                        come.fetch_add(1, Ordering::SeqCst);
                        let passed = barrier.wait().await;
                        leads.fetch_add(usize::from(passed.is_leader()), Ordering::SeqCst);
                        assert!(come.load(Ordering::SeqCst) >= 3 * round, "not all have come");
                    }
                }));
            }
            all(tasks).await;
            assert_eq!(leads.load(Ordering::SeqCst), 4);
        })
    });
}

#[test]
fn a_token_ends_all_below_it() {
    holds(|net| {
        Box::pin(async move {
            let root = CancellationToken::new();
            let mut tasks = Vec::new();
            let mut last = root.clone();
            for _ in 0..5 {
                last = if net.chance(50) { last.child_token() } else { root.child_token() };
                let (net, token) = (net.clone(), last.clone());
                tasks.push(start(async move {
                    loop {
                        let hour = Duration::from_secs(3600);
                        let limit = if net.chance(50) { net.draw_time(MOMENT) } else { hour };
                        let slept = token.run_until_cancelled(sleep(limit)).await;
                        if slept.is_none() {
                            break;
                        }
                    }
                    assert!(token.is_cancelled() && token.child_token().is_cancelled());
                }));
            }
            dawdle(&net).await;
            root.cancel();
            all(tasks).await;
        })
    });
}

#[test]
fn a_set_returns_each_task_once() {
    holds(|net| {
        Box::pin(async move {
            let (mut set, mut aborted) = (JoinSet::new(), 0);
            for number in 0..8_u32 {
                let own = net.clone();
                let abort = set.spawn(async move {
                    dawdle(&own).await;
                    number
                });
                if net.chance(20) {
                    dawdle(&net).await;
                    abort.unwrap().abort();
                }
            }
            let mut seen = Vec::new();
            loop {
                match timeout(net.draw_time(MOMENT), set.join_next()).await {
                    Err(_) => dawdle(&net).await,
                    Ok(Some(Ok(number))) => seen.push(number),
                    Ok(Some(Err(_))) => aborted += 1,
                    Ok(None) => break,
                }
            }
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len() + aborted, 8, "{seen:?} and {aborted}");
        })
    });
}

#[test]
fn a_select_over_channels_loses_nothing() {
    holds(|net| {
        Box::pin(async move {
            let ((one, mut ones), (other, mut others)) = (bounded(2), bounded(1));
            let sends = |sender: duality_runtime::sync::channel::Sender<u32>, from: u32| {
                let net = net.clone();
                start(async move {
                    for value in from..from + 15 {
                        sender.send(value).await.expect("the receiver stays");
                        if net.chance(30) {
                            dawdle(&net).await;
                        }
                    }
                })
            };
            let tasks = vec![sends(one, 0), sends(other, 100)];
            let (mut small, mut great) = (Vec::new(), Vec::new());
            loop {
                let takes_others = net.chance(70);
                let limit = net.draw_time(MOMENT);
                select! {
                    Some(value) = ones.recv() => small.push(value),
                    Some(value) = others.recv(), if takes_others => great.push(value),
                    () = sleep(limit), if !takes_others => {}
                    else => break,
                }
            }
            assert!(small.into_iter().eq(0..15));
            assert!(great.into_iter().eq(100..115));
            all(tasks).await;
        })
    });
}
