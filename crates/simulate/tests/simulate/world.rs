//! The world itself: times, names, limits, partitions, crashes, and what a failure tells.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::{Duration, Instant, SystemTime};

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::{task, time};
use duality_simulate::{Faults, Net, seeds};

async fn echo() -> std::io::Result<()> {
    let any = ([0, 0, 0, 0], 7).into();
    let mut listener = TcpListener::bind(any, &ListenOptions::default())?;
    while let Some(mut stream) = listener.accept_until_drain().await? {
        task::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    break;
                }
            }
        })?;
    }
    Ok(())
}

async fn exchange(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"hello").await?;
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).await?;
    assert_eq!(&reply, b"hello");
    Ok(())
}

#[test]
fn a_year_takes_a_moment() {
    let begin = Instant::now();
    let year = Duration::from_secs(365 * 86_400);
    let tally = seeds(0..3).lasting(2 * year).run(move |_| async move {
        let (began, day) = (Instant::now(), SystemTime::now());
        time::sleep(year).await;
        assert!(began.elapsed() >= year && day.elapsed().unwrap() >= year);
        assert!(time::time_of_day() > year);
    });
    assert!(tally.time >= 3 * year);
    assert!(begin.elapsed() < Duration::from_secs(60));
}

/// `HashMap` asks the machine for its keys. The order decides what is sent.
#[test]
fn the_order_of_a_hash_map_is_the_seeds() {
    seeds(0..5).run(|net| async move {
        net.client("client", || async {
            let map: HashMap<u32, ()> = (0..20).map(|key| (key, ())).collect();
            let mut stream = TcpStream::connect_host("server:7").await?;
            for key in map.keys() {
                stream.write_all(&key.to_le_bytes()).await?;
            }
            std::io::Result::Ok(())
        });
        net.host("server", echo);
        time::sleep(Duration::from_secs(100)).await;
    });
}

/// What decides from outside is found, and the first decision that differs is named.
#[test]
fn a_leak_is_found() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let found = seeds(0..1).try_run(|net: Net| async move {
        if RUNS.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            let _ = net.draw(10);
        }
        let _ = net.draw(100);
    });
    let why = found.expect_err("two runs differ").to_string();
    assert!(why.contains("two runs of one seed differ"), "{why}");
    assert!(why.contains("what the test draws"), "{why}");
}

#[test]
fn a_partition_is_survived_and_a_crash_is_noticed() {
    seeds(0..20).faults(Faults::LEGAL).run(|net| async move {
        let server = net.host("server", echo);
        let mut stream = loop {
            match TcpStream::connect_host("server:7").await {
                Ok(stream) => break stream,
                Err(_) => time::sleep(Duration::from_millis(100)).await,
            }
        };
        exchange(&mut stream).await.unwrap();
        net.partition("test", "server").for_(Duration::from_secs(5));
        let before = time::now();
        exchange(&mut stream).await.unwrap();
        assert!(time::since(before) >= Duration::from_secs(5));
        net.partition_one_way("server", "test").for_(Duration::from_secs(5));
        exchange(&mut stream).await.unwrap();
        server.crash().restart_after(Duration::from_secs(1));
        let error = exchange(&mut stream).await.expect_err("the server has crashed");
        let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe, ErrorKind::UnexpectedEof];
        assert!(kinds.contains(&error.kind()), "{error}");
        let mut stream = TcpStream::connect_host("server:7").await.unwrap();
        exchange(&mut stream).await.unwrap();
    });
}

#[test]
fn a_host_has_a_limit_of_descriptors() {
    seeds(0..3).faults(Faults::NONE).run(|net| async move {
        net.host("server", echo);
        let client = net.client("client", || async {
            time::sleep(Duration::from_secs(1)).await;
            let first = TcpStream::connect_host("server:7").await?;
            let second = TcpStream::connect_host("server:7").await;
            assert_eq!(second.unwrap_err().raw_os_error(), Some(24), "EMFILE");
            drop(first);
            TcpStream::connect_host("server:7").await.map(drop)
        });
        client.limit_descriptors(1);
        client.ended().await
    });
}

#[test]
fn what_is_not_there_is_refused() {
    seeds(0..3).faults(Faults::NONE).run(|net| async move {
        net.host("server", std::future::pending::<()>);
        let refused = TcpStream::connect_host("server:7").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let unknown = TcpStream::connect_host("nobody:7").await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        let unreachable = TcpStream::connect(([9, 9, 9, 9], 7).into()).await.unwrap_err();
        assert_eq!(unreachable.kind(), ErrorKind::HostUnreachable);
        net.partition("server", "test").until_healed();
        let begin = time::now();
        let lost = TcpStream::connect_host("server:7").await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::TimedOut);
        assert!(time::since(begin) > Duration::from_secs(60));
    });
}

async fn breaks() -> std::io::Result<()> {
    panic!("the server breaks")
}

#[test]
fn a_panic_is_the_failure_or_the_hosts() {
    let failing = seeds(0..5).try_run(|net: Net| async move {
        let host = net.host("server", breaks);
        host.ended().await
    });
    let failure = failing.expect_err("it panics").to_string();
    assert!(failure.contains("server: the server breaks"), "{failure}");
    assert!(failure.contains("again: DUALITY_SEED=0"), "{failure}");
    seeds(0..5).run(|net: Net| async move {
        net.host_that_may_panic("server", breaks);
        time::sleep(Duration::from_secs(1)).await;
    });
}

#[test]
fn nothing_can_happen_any_more() {
    let failing = seeds(0..1).try_run(|_| std::future::pending::<()>());
    let failure = failing.expect_err("it waits for ever").to_string();
    assert!(failure.contains("nothing can happen any more, and test wait"), "{failure}");
    let busy = |_| async {
        for _ in 0..u64::MAX {
            task::yield_now().await;
        }
    };
    let failing = seeds(0..1).turns(10_000).unshrunk().try_run(busy);
    assert!(failing.expect_err("it runs in circles").why.contains("10000 turns are over"));
}

#[test]
fn kernel_threads_of_a_host_are_refused_in_one_line() {
    seeds(0..1).run(|_| async {
        use duality_runtime::task::thread::{ThreadStack, start};
        let stack = ThreadStack::chosen(1 << 16, "a thread");
        let refused = start(stack, Box::new(|| ())).expect_err("a host has one kernel thread");
        assert!(refused.error.to_string().contains("use task::spawn"), "{}", refused.error);
    });
}

/// Once, a state machine attempted an operation again at its time limit, and a stack did not.
#[test]
fn a_time_limit_ends_alike_in_both_forms_of_waiting() {
    async fn impatient() -> std::io::Result<()> {
        let limit = Duration::from_millis(20);
        let mut listener = TcpListener::bind(([0, 0, 0, 0], 7).into(), &ListenOptions::default())?;
        let (mut stream, _) = listener.accept().await?;
        loop {
            let mut byte = [0];
            match time::timeout(limit, stream.read(&mut byte)).await {
                Ok(Ok(1)) => stream.write_all(&byte).await?,
                Ok(_) => return Ok(()),
                Err(_) => {
                    let circles = async {
                        loop {
                            task::yield_now().await;
                        }
                    };
                    let ended: Result<(), _> = time::timeout(limit / 10, circles).await;
                    assert!(ended.is_err());
                    let _ = time::timeout(limit, time::sleep(2 * limit)).await;
                }
            }
        }
    }
    seeds(0..60).in_both_waits().faults(Faults::LEGAL).run(|net| async move {
        let server = net.host("server", impatient);
        let client = net.clone();
        net.client("client", move || {
            let net = client.clone();
            async move {
                time::sleep(Duration::from_secs(1)).await;
                let mut stream = TcpStream::connect_host("server:7").await?;
                for _ in 0..20 {
                    stream.write_all(b"x").await?;
                    stream.read_exact(&mut [0]).await?;
                    time::sleep(net.draw_time(Duration::from_millis(200))).await;
                }
                std::io::Result::Ok(())
            }
        });
        server.ended().await
    });
}

#[test]
fn a_simulation_inside_another_is_refused_in_one_line() {
    let failing = seeds(0..1).unshrunk().try_run(|_| async {
        seeds(0..1).run(|_| async {});
    });
    let why = failing.expect_err("one is enough").why;
    assert!(why.contains("a simulation inside another"), "{why}");
}

#[test]
fn a_host_twice_is_refused_in_one_line() {
    let failing = seeds(0..1).unshrunk().try_run(|net: Net| async move {
        net.host("server", echo);
        net.host("server", echo);
    });
    let why = failing.expect_err("two hosts have one name").why;
    assert!(why.contains("there is a host \"server\": choose another name"), "{why}");
}
