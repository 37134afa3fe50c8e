//! Faults that show when packets, connections or servers come and go.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use duality_runtime::net::TcpStream;
use duality_runtime::{task, time};
use duality_simulate::{Faults, Net};

use super::{Planted, Test, ask, connect, line, must, say, secs, serve, text};

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
                        )
                        .into()));
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

/// The server ends at a drain, whatever it is doing.
#[test]
fn a_drain_that_drops() {
    let test = |net: Net, is_planted: bool| -> Test {
        Box::pin(async move {
            let is_asked = Arc::new(AtomicBool::new(false));
            let hears = is_asked.clone();
            let server = net.host("server", move || {
                let hears = hears.clone();
                async move {
                    let accepting = serve(move |mut stream| {
                        let hears = hears.clone();
                        async move {
                            let word = line(&mut stream).await?;
                            hears.store(true, Ordering::SeqCst);
                            task::offload(|| ()).await;
                            say(&mut stream, &word).await
                        }
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
                }
            });
            let mut stream = connect().await;
            text(stream.write_all(b"hello\n").await)?;
            // A request that has not come as a whole ends at a drain, rightly.
            while !is_asked.load(Ordering::SeqCst) {
                time::sleep(Duration::from_micros(100)).await;
            }
            time::sleep(net.draw_time(Duration::from_millis(20))).await;
            server.drain();
            match line(&mut stream).await {
                Ok(reply) => must(reply == "hello", "another reply"),
                Err(error) => Err(format!("dropped: {error}").into()),
            }
        })
    };
    Planted { test, faults: Faults::LEGAL, says: "dropped" }.is_found();
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
