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

/// Code such as tonic's server binds by `std`, and hands the socket to its runtime.
#[test]
fn a_listener_of_std_takes_no_port_of_the_machine() {
    seeds(0..3).run(|net: Net| async move {
        let listen = || async {
            let address = std::net::SocketAddr::from(([0, 0, 0, 0], 80));
            let listener = std::net::TcpListener::bind(address)?;
            assert_eq!(listener.local_addr()?, address);
            time::sleep(Duration::from_secs(1)).await;
            std::io::Result::Ok(())
        };
        let (one, other) = (net.host("one", listen), net.host("other", listen));
        one.ended().await?;
        other.ended().await
    });
}

/// A static variable decides, and begins anew in each process.
#[test]
fn statics_begin_anew_in_processes_of_their_own() {
    use std::sync::atomic::{AtomicU64, Ordering};
    async fn counts(net: Net) {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        assert!(net.draw(1000 + RUNS.fetch_add(1, Ordering::Relaxed)) < 1000);
    }
    let found = seeds(0..3).unshrunk().try_run(counts);
    assert!(found.expect_err("the bounds differ").why.contains("two runs of one seed differ"));
    let tally = seeds(0..3).apart().run(counts);
    assert_eq!(tally.seeds, 3);
    // A failure passes from the process of its own, with its decisions.
    let found = seeds(0..100).apart().try_run(|net: Net| async move {
        assert!(net.draw(10) < 5, "five or more");
    });
    let failure = found.expect_err("some seed draws five").to_string();
    assert!(failure.contains("five or more") && failure.contains("made small: "), "{failure}");
}

/// Datagrams are lost, come twice, and are overtaken. A peer that does not listen refuses them.
#[test]
fn datagrams_arrive_as_they_like() {
    use duality_runtime::net::UdpSocket;
    let tally = seeds(0..40).in_both_waits().run(|net| async move {
        net.host("server", || async {
            let mut socket = UdpSocket::bind(([0, 0, 0, 0], 53).into())?;
            assert_eq!(socket.local_addr()?.port(), 53);
            let mut buffer = [0; 8];
            loop {
                let (length, peer) = socket.recv_from(&mut buffer).await?;
                socket.send_to(&buffer[..length], peer).await?;
            }
            #[allow(unreachable_code)]
            std::io::Result::Ok(())
        });
        let server = net.named("server").port(53);
        let client = net.host("client", move || async move {
            time::sleep(Duration::from_secs(1)).await;
            let mut socket = UdpSocket::bind(([0, 0, 0, 0], 0).into())?;
            socket.connect(server)?;
            assert_eq!(socket.peer_addr()?, server);
            // One that is too long is cut.
            for number in 0..50_u32 {
                socket.send(&[&number.to_le_bytes()[..], &[7; 8]].concat()).await?;
            }
            let mut heard = Vec::new();
            let mut buffer = [0; 64];
            let limit = Duration::from_secs(60);
            while let Ok(received) = time::timeout(limit, socket.recv(&mut buffer)).await {
                assert_eq!((received?, &buffer[4..8]), (8, &[7; 4][..]));
                heard.push(u32::from_le_bytes(*buffer.first_chunk().unwrap()));
            }
            assert!(heard.iter().all(|number| *number < 50), "{heard:?}");
            let nobody = (server.ip(), 54).into();
            socket.connect(nobody)?;
            socket.send(b"?").await?;
            // The answer may be lost.
            if let Ok(refused) = time::timeout(limit, socket.recv(&mut buffer)).await {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
            }
            let error = socket.send(&[0; 65_508]).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(90), "EMSGSIZE");
            std::io::Result::Ok(())
        });
        client.ended().await
    });
    let counts = tally.counts;
    for count in [counts.datagrams, counts.lost, counts.doubled, counts.overtaken] {
        assert!(count > 0, "{counts}");
    }
}

/// The clocks of hosts differ, and the test's own is right.
#[test]
fn each_host_has_a_clock_of_its_own() {
    let most = Duration::from_secs(90 * 86_400);
    let run = seeds(0..40).lasting(most).in_both_waits().faults(Faults::LEGAL);
    let tally = run.run(|net| async move {
        let hour = Duration::from_secs(3600);
        let start = time::time_of_day();
        let net_of_host = net.clone();
        let host = net.host("host", move || {
            let net = net_of_host.clone();
            async move {
                let (begin, day) = (Instant::now(), SystemTime::now());
                time::sleep(1000 * hour).await;
                // Each clock agrees with itself, and code that asks the machine with the runtime.
                assert!(begin.elapsed() >= 1000 * hour);
                assert!(day.elapsed().unwrap() >= 1000 * hour);
                let day = day.duration_since(SystemTime::UNIX_EPOCH).unwrap();
                let differs = day.abs_diff(start);
                assert!(differs <= hour + hour / 100, "{differs:?}");
                net.tell("an end");
            }
        });
        let begin = time::now();
        host.ended().await.unwrap();
        let (took, most) = (time::since(begin), 1000 * hour / 2000 + hour);
        assert!(took.abs_diff(1000 * hour) <= most, "{took:?}");
    });
    assert!(tally.counts.wrong_clocks > 0, "{}", tally.counts);
}

/// A program may ask the C library for the address of a host, as clients of HTTP do.
#[test]
fn the_resolver_knows_the_names_of_hosts() {
    use std::net::ToSocketAddrs;
    seeds(0..1).run(|net: Net| async move {
        let server = net.host("server", echo);
        let found: Vec<_> = "server:7".to_socket_addrs().unwrap().collect();
        assert_eq!(found, [server.port(7)]);
        assert!("nobody:7".to_socket_addrs().is_err());
        assert_eq!("10.1.2.3:4".to_socket_addrs().unwrap().count(), 1);
    });
}

/// A thread that ends by itself runs in place, with the clock and the randomness of its seed.
#[test]
fn a_kernel_thread_of_std_runs_before_its_starter_goes_on() {
    seeds(0..3).run(|net: Net| async move {
        let begin = Instant::now();
        let work = || (Instant::now(), (0..9).map(|key| (key, ())).collect::<HashMap<u32, ()>>());
        let (then, map) = std::thread::spawn(work).join().unwrap();
        assert_eq!(then, begin);
        map.into_keys().for_each(|key| _ = net.draw(10 + u64::from(key)));
    });
}

#[test]
fn a_kernel_thread_of_std_that_waits_is_refused_with_its_place() {
    let failing = seeds(0..1).unshrunk().try_run(|net: Net| async move {
        let host = net.host("server", || async {
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            let thread = std::thread::spawn(move || receiver.recv());
            drop(sender);
            thread.join().unwrap().unwrap_err();
        });
        host.ended().await
    });
    let why = failing.expect_err("the thread waits for its starter").why;
    let begins = "server: a simulated host has a kernel thread that waits, started at ";
    assert!(why.starts_with(begins) && why.contains("world.rs:"), "{why}");
    assert!(why.ends_with("use task::spawn or task::offload"), "{why}");
}
