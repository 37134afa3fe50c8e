//! Services with a fault each. Some seed of a thousand must find it, and shrink it to something
//! that a person reads in a minute. Without the fault, the same test must pass.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use duality_runtime::handler::Connections;
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::{sync, task, time};
use duality_simulate::{Faults, Net, seeds};

type Test = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// A planted fault.
struct Planted {
    /// `true` plants the fault.
    test: fn(Net, bool) -> Test,
    faults: Faults,
    /// A part of the failure.
    says: &'static str,
}

/// The most decisions that are not tame in a shrunk run.
const FEW: usize = 25;

impl Planted {
    fn is_found(&self) {
        let test = self.test;
        let run =
            || seeds(0..1000).once().lasting(Duration::from_secs(24 * 3600)).faults(self.faults);
        let failure = run().try_run(move |net| test(net, true)).expect_err("a seed finds it");
        assert!(failure.why.contains(self.says), "{failure}");
        let shrunk = failure.shrunk.as_ref().expect("it is shrunk");
        assert!(shrunk.decisions.1 <= FEW, "{failure}");
        assert!(shrunk.why.contains(self.says), "{failure}");
        seeds(0..200).once().faults(self.faults).run(move |net| test(net, false));
    }
}

// What the services have in common.

async fn serve<F>(serve: impl Fn(TcpStream) -> F) -> io::Result<()>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let any = ([0, 0, 0, 0], 80).into();
    let mut listener = TcpListener::bind(any, &ListenOptions::default())?;
    let connections = Connections::default();
    while let Some(stream) = listener.accept_until_drain().await? {
        let (served, active) = (serve(stream), connections.enter());
        task::spawn(async move {
            let _ = served.await;
            drop(active);
        })?;
    }
    connections.all_ended().await;
    Ok(())
}

async fn connect() -> TcpStream {
    loop {
        match TcpStream::connect_host("server:80").await {
            Ok(stream) => return stream,
            Err(_) => time::sleep(secs(1)).await,
        }
    }
}

async fn line(stream: &mut TcpStream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        match stream.read(&mut byte).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if byte == *b"\n" => return Ok(String::from_utf8_lossy(&line).into_owned()),
            _ => line.push(byte[0]),
        }
    }
}

async fn ask(stream: &mut TcpStream, request: &str) -> io::Result<String> {
    stream.write_all(format!("{request}\n").as_bytes()).await?;
    line(stream).await
}

async fn say(stream: &mut TcpStream, reply: &str) -> io::Result<()> {
    stream.write_all(format!("{reply}\n").as_bytes()).await
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn must(is_right: bool, why: impl Into<String>) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(why.into()) }
}

fn text<T>(outcome: io::Result<T>) -> Result<T, String> {
    outcome.map_err(|error| error.to_string())
}

/// One read is taken for one line.
#[test]
fn a_missing_length_check() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            net.host("server", move || {
                serve(move |mut stream| async move {
                    loop {
                        let word = if is_planted {
                            let mut buffer = [0; 64];
                            let count = stream.read(&mut buffer).await?;
                            if count == 0 {
                                return Ok(());
                            }
                            String::from_utf8_lossy(&buffer[..count]).trim_end().to_owned()
                        } else {
                            line(&mut stream).await?
                        };
                        say(&mut stream, &word.to_uppercase()).await?;
                    }
                })
            });
            let mut stream = connect().await;
            for number in 0..5 {
                let reply = text(ask(&mut stream, &format!("word {number}")).await)?;
                must(reply == format!("WORD {number}"), format!("cut: {reply:?}"))?;
            }
            Ok(())
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "cut" }.is_found();
}

/// The server acknowledges before the write.
#[test]
fn an_acknowledgement_before_the_write() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            let disk = Arc::new(AtomicU64::new(0));
            let server = net.host("server", move || {
                let disk = disk.clone();
                serve(move |mut stream| {
                    let disk = disk.clone();
                    async move {
                        loop {
                            let word = line(&mut stream).await?;
                            let Ok(value) = word.parse() else {
                                let value = disk.load(Ordering::SeqCst).to_string();
                                say(&mut stream, &value).await?;
                                continue;
                            };
                            let disk = disk.clone();
                            let write = task::offload(move || disk.store(value, Ordering::SeqCst));
                            if is_planted {
                                say(&mut stream, "ok").await?;
                                write.await;
                            } else {
                                write.await;
                                say(&mut stream, "ok").await?;
                            }
                        }
                    }
                })
            });
            let mut known = 0;
            for number in 1..=20_u64 {
                let mut stream = connect().await;
                let exchange = async {
                    let value = ask(&mut stream, "get").await?.parse().unwrap_or(0);
                    if value < known {
                        return Ok(Err(format!(
                            "lost: {known} was acknowledged, {value} is there"
                        )));
                    }
                    ask(&mut stream, &number.to_string()).await.map(Ok)
                };
                match time::timeout(secs(10), exchange).await {
                    Ok(Ok(Ok(_))) => known = number,
                    Ok(Ok(Err(lost))) => return Err(lost),
                    _ => {}
                }
                if net.chance(30) {
                    server.crash().restart_after(secs(1));
                }
                time::sleep(secs(2)).await;
            }
            Ok(())
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "lost" }.is_found();
}

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

/// The client asks again after a time-out, and the server adds again.
#[test]
fn a_retry_that_doubles() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            let sums = Arc::new(Mutex::new((0, 0)));
            net.host("server", move || {
                let sums = sums.clone();
                serve(move |mut stream| {
                    let sums = sums.clone();
                    async move {
                        let number: u64 = line(&mut stream).await?.parse().unwrap_or(0);
                        let sum = {
                            let mut sums = sums.lock().unwrap();
                            let (last, sum) = &mut *sums;
                            if is_planted || *last != number {
                                *sum += 1;
                            }
                            *last = number;
                            *sum
                        };
                        say(&mut stream, &sum.to_string()).await
                    }
                })
            });
            for number in 1..=10_u64 {
                if net.chance(10) {
                    let net = net.clone();
                    let cut = task::spawn(async move {
                        time::sleep(net.draw_time(Duration::from_millis(20))).await;
                        net.partition("test", "server").for_(net.draw_time(secs(8)));
                    });
                    drop(text(cut)?);
                }
                let sum = loop {
                    let once = async {
                        let mut stream = TcpStream::connect_host("server:80").await?;
                        ask(&mut stream, &number.to_string()).await
                    };
                    match time::timeout(secs(3), once).await {
                        Ok(Ok(sum)) => break sum,
                        _ => time::sleep(secs(1)).await,
                    }
                };
                must(sum == number.to_string(), format!("doubled: {sum} after {number}"))?;
                time::sleep(secs(5) + net.draw_time(secs(1))).await;
            }
            Ok(())
        })
    };
    // A late packet of an earlier try would double in any case.
    let faults = Faults { slow: false, partitions: true, ..Faults::LEGAL };
    Planted { test, faults, says: "doubled" }.is_found();
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
                loop {
                    let mut stream = connect().await;
                    let _ = time::timeout(secs(5), ask(&mut stream, "hello")).await;
                    // What the server says last is not read: the close is a reset.
                    let _ = stream.write_all(b"x\n").await;
                    time::sleep(secs(1)).await;
                }
                #[expect(unreachable_code, reason = "the type of a main")]
                ()
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
                    Ok::<(), String>(())
                })
            };
            let (ann, bob) = (client("ann"), client("bob"));
            ann.ended().await?;
            bob.ended().await
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "got the reply of" }.is_found();
}

/// The server ends at a drain, whatever it is doing.
#[test]
fn a_drain_that_drops() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            let server = net.host("server", move || async move {
                let accepting = serve(|mut stream| async move {
                    let word = line(&mut stream).await?;
                    task::offload(|| ()).await;
                    say(&mut stream, &word).await
                });
                if !is_planted {
                    return accepting.await;
                }
                duality_runtime::task::gather(async {
                    let mut accepting = std::pin::pin!(accepting);
                    let mut drained = std::pin::pin!(duality_runtime::drained());
                    poll_fn(|context| match drained.as_mut().poll(context) {
                        Poll::Ready(()) => Poll::Ready(Ok(())),
                        Poll::Pending => accepting.as_mut().poll(context),
                    })
                    .await
                })
                .await
            });
            let mut stream = connect().await;
            text(stream.write_all(b"hello\n").await)?;
            time::sleep(net.draw_time(Duration::from_millis(20))).await;
            server.drain();
            match line(&mut stream).await {
                Ok(reply) => must(reply == "hello", "another reply"),
                Err(error) => Err(format!("dropped: {error}")),
            }
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "dropped" }.is_found();
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
                Err(_) => Err("held up by another client".to_owned()),
            }
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "held up" }.is_found();
}

/// Each value goes by a connection of its own, and the last one that comes is kept.
#[test]
fn an_order_that_only_a_partition_breaks() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            let kept = Arc::new(Mutex::new(BTreeMap::new()));
            let shared = kept.clone();
            net.host("server", move || {
                let kept = shared.clone();
                serve(move |mut stream| {
                    let kept = kept.clone();
                    async move {
                        let value: u64 = line(&mut stream).await?.parse().unwrap_or(0);
                        let mut kept = kept.lock().unwrap();
                        let newest: u64 = kept.get("value").copied().unwrap_or(0);
                        if is_planted || value > newest {
                            kept.insert("value", value);
                        }
                        Ok(())
                    }
                })
            });
            time::sleep(secs(1)).await;
            for value in 1..=10_u64 {
                if net.chance(10) {
                    net.partition("test", "server").for_(net.draw_time(secs(4)));
                }
                let sent = task::spawn(async move {
                    if let Ok(mut stream) = TcpStream::connect_host("server:80").await {
                        let _ = say(&mut stream, &value.to_string()).await;
                    }
                });
                drop(text(sent)?);
                time::sleep(secs(2)).await;
            }
            time::sleep(secs(300)).await;
            let last = kept.lock().unwrap().get("value").copied();
            must(last == Some(10), format!("an old value is kept: {last:?}"))
        })
    };
    let faults = Faults { partitions: true, ..Faults::LEGAL };
    Planted { test, faults, says: "an old value" }.is_found();
}
