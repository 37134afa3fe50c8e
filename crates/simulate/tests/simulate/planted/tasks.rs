//! Faults that show when tasks of one server meet.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use duality_runtime::{sync, task, time};
use duality_simulate::{Faults, Net, Violation};

use super::{Planted, Test, ask, connect, line, must, say, secs, serve, text};

/// A place to wait for one event. As planted, it forgets an event between its two steps.
#[derive(Default)]
struct Event {
    is_set: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Event {
    fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.lock().unwrap().take() {
            waker.wake();
        }
    }

    async fn wait(&self, forgets: bool) {
        if self.is_set.load(Ordering::SeqCst) {
            return;
        }
        task::yield_now().await;
        let mut has_waited = !forgets;
        poll_fn(|context| {
            *self.waker.lock().unwrap() = Some(context.waker().clone());
            match std::mem::replace(&mut has_waited, true) && self.is_set.load(Ordering::SeqCst) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

#[test]
fn a_lost_wake_up() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            net.host("server", move || {
                serve(move |mut stream| async move {
                    loop {
                        let word = line(&mut stream).await?;
                        let event = Arc::new(Event::default());
                        let teller = event.clone();
                        task::spawn(async move {
                            for _ in 0..3 {
                                task::yield_now().await;
                            }
                            teller.set();
                        })?;
                        event.wait(is_planted).await;
                        say(&mut stream, &word).await?;
                    }
                })
            });
            let mut stream = connect().await;
            for number in 0..5 {
                text(ask(&mut stream, &number.to_string()).await)?;
            }
            Ok(())
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "nothing can happen any more" }.is_found();
}

/// The reply goes through a place that all connections share.
#[test]
fn a_reply_to_the_wrong_client() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            net.host("server", move || {
                let shared = Arc::new(Mutex::new(String::new()));
                serve(move |mut stream| {
                    let shared = shared.clone();
                    async move {
                        loop {
                            let word = line(&mut stream).await?;
                            *shared.lock().unwrap() = word.clone();
                            task::offload(|| ()).await;
                            let reply =
                                if is_planted { shared.lock().unwrap().clone() } else { word };
                            say(&mut stream, &reply).await?;
                        }
                    }
                })
            });
            let client = |name: &'static str| {
                net.client(name, move || async move {
                    let mut stream = connect().await;
                    for _ in 0..10 {
                        let reply = text(ask(&mut stream, name).await)?;
                        must(reply == name, format!("{name} got the reply of {reply}"))?;
                        time::sleep(Duration::from_millis(5)).await;
                    }
                    Ok::<(), Violation>(())
                })
            };
            let (ann, bob) = (client("ann"), client("bob"));
            ann.ended().await?;
            bob.ended().await
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "got the reply of" }.is_found();
}

/// A connection that breaks keeps its slot.
#[test]
fn a_slot_that_is_never_freed() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            net.host("server", move || {
                let slots = Arc::new(AtomicUsize::new(3));
                serve(move |mut stream| {
                    let slots = slots.clone();
                    async move {
                        if slots.load(Ordering::SeqCst) == 0 {
                            return say(&mut stream, "full").await;
                        }
                        slots.fetch_sub(1, Ordering::SeqCst);
                        loop {
                            match line(&mut stream).await {
                                Ok(word) => say(&mut stream, &word).await?,
                                Err(error)
                                    if is_planted
                                        && error.kind() != io::ErrorKind::UnexpectedEof =>
                                {
                                    return Err(error);
                                }
                                Err(_) => break,
                            }
                        }
                        slots.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    }
                })
            });
            let client = net.client("client", || async {
                for _ in 0..1000 {
                    let mut stream = connect().await;
                    let _ = time::timeout(secs(5), ask(&mut stream, "hello")).await;
                    // What the server says last is not read: the close is a reset.
                    let _ = stream.write_all(b"x\n").await;
                    time::sleep(secs(1)).await;
                }
            });
            time::sleep(secs(20)).await;
            client.crash();
            time::sleep(secs(60)).await;
            let mut stream = connect().await;
            let reply = text(ask(&mut stream, "hello").await)?;
            must(reply == "hello", format!("no slot: {reply}"))
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "no slot" }.is_found();
}

/// The time limit of a request is that of the whole connection.
#[test]
fn a_time_out_that_is_not_renewed() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            net.host("server", move || {
                serve(move |mut stream| async move {
                    let begin = time::now();
                    loop {
                        let passed = if is_planted { time::since(begin) } else { Duration::ZERO };
                        let left = secs(10).saturating_sub(passed);
                        let Ok(word) = time::timeout(left, line(&mut stream)).await else {
                            return Ok(());
                        };
                        say(&mut stream, &word?).await?;
                    }
                })
            });
            let mut stream = connect().await;
            for number in 0..4 {
                let reply = ask(&mut stream, &number.to_string()).await;
                must(reply.is_ok(), format!("cut off at request {number}"))?;
                time::sleep(net.draw_time(secs(4))).await;
            }
            Ok(())
        })
    };
    let faults = Faults { late_timers: false, ..Faults::LEGAL };
    Planted { test, faults, says: "cut off" }.is_found();
}

/// The server answers one client while it holds the lock that all need.
#[test]
fn a_lock_held_over_an_await() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            net.host("server", move || {
                let lock = Arc::new(sync::Mutex::new(0_u64));
                serve(move |mut stream| {
                    let lock = lock.clone();
                    async move {
                        loop {
                            let word = line(&mut stream).await?;
                            let mut count = lock.lock().await;
                            *count += 1;
                            let reply = format!("{word} {}", "x".repeat(2000));
                            if !is_planted {
                                drop(count);
                                say(&mut stream, &reply).await?;
                                continue;
                            }
                            say(&mut stream, &reply).await?;
                        }
                    }
                })
            });
            net.client("slow", || async {
                let mut stream = connect().await;
                // It asks, and does not read.
                let _ = stream.write_all(b"a\n").await;
                time::sleep(secs(3600)).await;
            });
            time::sleep(secs(5)).await;
            let mut stream = connect().await;
            match time::timeout(secs(300), ask(&mut stream, "b")).await {
                Ok(reply) => text(reply).map(drop),
                Err(_) => Err("held up by another client".into()),
            }
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "held up" }.is_found();
}
