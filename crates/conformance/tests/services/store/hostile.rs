//! Tests the Redis store with peers that lie, stop half-way, never end or never begin.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use duality_runtime::task;
use duality_services::store::{
    Channel, Location, Options, RedisCalls, Store, Subscription, Unavailable, Visit,
};

use super::worlds::{EVER, World, in_every_world};
use crate::kept_port::KeptPort;

in_every_world! { given:
    lies_are_unavailable_and_forgotten
    nonsense_is_not_asked_for_again_at_once
    errors_are_told_in_one_line
    what_must_happen_once_is_not_repeated
    what_may_be_repeated_is
    one_write_or_three_calls
    connections_are_bounded_and_reused
    who_gets_no_turn_is_told_so
    a_silent_server_is_left_alone_for_a_while
    a_refused_connection_is_unavailable
    a_refused_connection_leaves_those_that_are_good
    a_subscription_bears_no_lies
}

/// The reply of a good server to a visit that asks for remarks.
const VISIT: &str = ":7\r\n*1\r\n$10\r\n3:annhello\r\n";

/// A server that serves each connection on a thread. `serve` gets the connection and its number.
fn fake(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (serve, stream) = (serve.clone(), stream.unwrap());
            stream.set_read_timeout(Some(EVER)).unwrap();
            thread::spawn(move || serve(number, stream));
        }
    });
    address
}

/// The next commands, or `None` at the end. The store sends its commands in one write, and loopback
/// delivers so few bytes in one piece.
fn commands(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = [0; 4096];
    let length = stream.read(&mut bytes).unwrap_or(0);
    (length > 0).then(|| String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// Gives the same reply to all commands.
fn reply_always(mut stream: TcpStream, reply: &str) {
    while commands(&mut stream).is_some() && stream.write_all(reply.as_bytes()).is_ok() {}
}

fn store(address: SocketAddr, options: Options) -> Store {
    let location: Location = format!("redis://{address}").parse().unwrap();
    Store::new(&location, options).unwrap()
}

/// Repeats a call until the result is as wanted.
async fn until<T, F: Future<Output = Result<T, Unavailable>>>(
    mut call: impl FnMut() -> F,
    wanted: impl Fn(&Result<T, Unavailable>) -> bool,
) {
    let start = Instant::now();
    while !wanted(&call().await) {
        assert!(start.elapsed() < EVER, "that did not come to pass");
        task::yield_now().await;
    }
}

fn lies_are_unavailable_and_forgotten(world: World) {
    #[derive(Clone, Copy, PartialEq)]
    enum Then {
        Close,
        Hold,
        Drip,
    }
    for (reply, then) in [
        ("", Then::Close),
        ("", Then::Hold),
        (":7\r\n*1\r\n$10\r\n3:ann", Then::Close),
        (":7\r\n*1\r\n$10\r\n3:ann", Then::Hold),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", Then::Hold),
        ("\0\u{1}\u{2}\r\n\r\n", Then::Hold),
        (":7\r\n*1\r\n*1\r\n*1\r\n*1\r\n", Then::Hold),
        (":7\r\n*1000000000\r\n", Then::Hold),
        (":7\r\n$999999999999\r\n", Then::Hold),
        (":7\r\n*1\r\n$6000000\r\n", Then::Drip),
        (":7\r\n:7\r\n", Then::Hold),
        ("+OK\r\n*0\r\n", Then::Hold),
        (":-7\r\n*0\r\n", Then::Hold),
        ("$-1\r\n$-1\r\n", Then::Hold),
        (":7\r\n*0\r\n:8\r\n", Then::Hold),
    ] {
        let address = fake(move |number, mut stream| {
            if number > 0 {
                return reply_always(stream, VISIT);
            }
            commands(&mut stream);
            stream.write_all(reply.as_bytes()).unwrap();
            while then == Then::Drip && stream.write_all(b"x").is_ok() {}
            while then == Then::Hold && commands(&mut stream).is_some() {}
        });
        let options = Options { reply_limit: Duration::from_millis(50), ..Options::default() };
        let store = store(address, options);
        world.run(async move {
            let error = store.visit(5).await.unwrap_err().to_string();
            assert!(error.contains("is unavailable") && !error.contains('\n'), "{error}");
            until(
                || store.visit(5),
                |visit| match visit {
                    Ok(visit) => {
                        assert_eq!((visit.visitors, visit.remarks.len()), (7, 1));
                        true
                    }
                    Err(_) => false,
                },
            )
            .await;
        });
    }
}

/// The store connects to a peer that is not a Redis ten times a second, not thousands of times.
fn nonsense_is_not_asked_for_again_at_once(world: World) {
    for reply in ["HTTP/1.1 400 Bad Request\r\n\r\n", "+OK\r\n+OK\r\n", ""] {
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let address = fake(move |_, mut stream| {
            counted.fetch_add(1, Ordering::Relaxed);
            commands(&mut stream);
            stream.write_all(reply.as_bytes()).unwrap();
        });
        let store = store(address, Options::default());
        world.run(async move {
            let start = Instant::now();
            for _ in 0..1000 {
                store.visit(5).await.unwrap_err();
            }
            let tenths = start.elapsed().as_millis() as usize / 100;
            let connections = connections.load(Ordering::Relaxed);
            assert!((1..=2 + tenths).contains(&connections), "{connections} in {tenths} tenths");
        });
    }
}

fn errors_are_told_in_one_line(world: World) {
    let reply = format!("-ERR \u{7}bad\tnews {}\r\n:1\r\n", "x".repeat(900));
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let address = fake(move |_, stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        reply_always(stream, &reply);
    });
    let store = store(address, Options::default());
    world.run(async move {
        for _ in 0..3 {
            let error = store.visit(5).await.unwrap_err().to_string();
            assert!(error.contains("it refused: ERR  bad news xxx"), "{error}");
            assert!(error.len() < 500 && !error.contains(char::is_control), "{error}");
        }
        // A refusal is a complete reply, so the connection stays good.
        assert_eq!(connections.load(Ordering::Relaxed), 1);
    });
}

/// A server that replies to the first commands on its first connection, and closes it at the
/// second. Also returns the commands that it got.
fn fickle(reply: &'static str) -> (SocketAddr, Arc<Mutex<String>>) {
    let heard = Arc::new(Mutex::new(String::new()));
    let hears = heard.clone();
    let address = fake(move |number, mut stream| {
        for turn in 0.. {
            let Some(commands) = commands(&mut stream) else { return };
            hears.lock().unwrap().push_str(&commands);
            if (number, turn) == (0, 1) {
                return;
            }
            stream.write_all(reply.as_bytes()).unwrap();
        }
    });
    (address, heard)
}

fn what_must_happen_once_is_not_repeated(world: World) {
    let (address, heard) = fickle(VISIT);
    let store = store(address, Options::default());
    world.run(async move {
        store.visit(5).await.unwrap();
        store.visit(5).await.unwrap_err();
        assert_eq!(heard.lock().unwrap().matches("INCR").count(), 2);
        store.visit(5).await.unwrap();
        assert_eq!(heard.lock().unwrap().matches("INCR").count(), 3);
    });
}

fn what_may_be_repeated_is(world: World) {
    let (address, heard) = fickle("$3\r\n123\r\n");
    let store = store(address, Options::default());
    world.run(async move {
        for _ in 0..2 {
            assert_eq!(store.find_entry("ann").await.unwrap().as_deref(), Some("123"));
        }
        assert_eq!(heard.lock().unwrap().matches("HGET").count(), 3);
    });
}

fn one_write_or_three_calls(world: World) {
    let address = fake(|_, mut stream| {
        while let Some(commands) = commands(&mut stream) {
            let has = |word| commands.contains(word);
            let reply = match (has("LRANGE"), has("INCR"), has("GET")) {
                (true, true, false) => VISIT,
                (true, false, false) => &VISIT[4..],
                (false, true, false) => ":8\r\n",
                (false, false, true) => "$1\r\n9\r\n",
                _ => "-ERR not as expected\r\n",
            };
            stream.write_all(reply.as_bytes()).unwrap();
        }
    });
    for (redis_calls, visitors) in [(RedisCalls::Pipelined, 7), (RedisCalls::Separate, 9)] {
        let store = store(address, Options { redis_calls, ..Options::default() });
        world.run(async move {
            let Visit { visitors: number, remarks } = store.visit(5).await.unwrap();
            assert_eq!((number, remarks.len()), (visitors, 1));
        });
    }
}

fn connections_are_bounded_and_reused(world: World) {
    const BOUND: usize = 2;
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let address = fake(move |_, stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        reply_always(stream, "$-1\r\n");
    });
    let options = Options { redis_connections: BOUND, turn_limit: EVER, ..Options::default() };
    let store = store(address, options);
    world.run(async move {
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let store = store.clone();
                task::spawn(async move {
                    for _ in 0..10 {
                        assert_eq!(store.find_entry("ann").await.unwrap(), None);
                    }
                })
                .unwrap()
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!((1..=BOUND).contains(&connections.load(Ordering::Relaxed)));
    });
}

fn who_gets_no_turn_is_told_so(world: World) {
    let (asked, released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (hears, waits) = (asked.clone(), released.clone());
    let address = fake(move |_, mut stream| {
        while commands(&mut stream).is_some() {
            hears.store(true, Ordering::Relaxed);
            while !waits.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            stream.write_all(b"$-1\r\n").unwrap();
        }
    });
    let options = Options {
        redis_connections: 1,
        turn_limit: Duration::from_millis(20),
        reply_limit: EVER,
        ..Options::default()
    };
    let store = store(address, options);
    world.run(async move {
        let first = store.clone();
        let first = task::spawn(async move { first.find_entry("ann").await }).unwrap();
        while !asked.load(Ordering::Relaxed) {
            task::yield_now().await;
        }
        let error = store.find_entry("bob").await.unwrap_err().to_string();
        assert!(error.contains("overloaded"), "{error}");
        released.store(true, Ordering::Relaxed);
        assert_eq!(first.await.unwrap().unwrap(), None);
        assert_eq!(store.find_entry("bob").await.unwrap(), None);
    });
}

fn a_silent_server_is_left_alone_for_a_while(world: World) {
    let address = fake(|_, mut stream| while commands(&mut stream).is_some() {});
    let options = Options { reply_limit: Duration::from_millis(5), ..Options::default() };
    let store = store(address, options);
    world.run(async move {
        let error = store.find_entry("ann").await.unwrap_err().to_string();
        assert!(error.contains("did not reply in time"), "{error}");
        until(
            || store.find_entry("ann"),
            |result| result.as_ref().is_err_and(|error| error.to_string().contains("a moment ago")),
        )
        .await;
    });
}

fn a_refused_connection_is_unavailable(world: World) {
    let port = KeptPort::keep();
    let store = store(port.address(), Options::default());
    world.run(async move {
        let error = store.visit(1).await.unwrap_err().to_string();
        assert!(error.contains("cannot be reached"), "{error}");
    });
}

#[test]
fn a_host_that_nobody_knows_is_refused() {
    let location: Location = "redis://a..b:1".parse().unwrap();
    let error = Store::new(&location, Options::default()).err().unwrap().to_string();
    assert!(error.contains("redis://a..b:1") && error.contains("check its name"), "{error}");
}

/// The server takes only one connection. Calls on it succeed, even just after another call could
/// not connect.
fn a_refused_connection_leaves_those_that_are_good(world: World) {
    let (asked, released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (hears, waits) = (asked.clone(), released.clone());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        stream.set_read_timeout(Some(EVER)).unwrap();
        while commands(&mut stream).is_some() {
            hears.store(true, Ordering::Relaxed);
            while !waits.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            stream.write_all(b"$-1\r\n").unwrap();
        }
    });
    let store = store(address, Options { reply_limit: EVER, ..Options::default() });
    world.run(async move {
        let first = store.clone();
        let first = task::spawn(async move { first.find_entry("ann").await }).unwrap();
        while !asked.load(Ordering::Relaxed) {
            task::yield_now().await;
        }
        // The only connection is in use.
        let error = store.find_entry("bob").await.unwrap_err().to_string();
        assert!(error.contains("cannot be reached"), "{error}");
        let error = store.find_entry("bob").await.unwrap_err().to_string();
        assert!(error.contains("reached"), "{error}");
        released.store(true, Ordering::Relaxed);
        assert_eq!(first.await.unwrap().unwrap(), None);
        for _ in 0..10 {
            assert_eq!(store.find_entry("bob").await.unwrap(), None);
        }
    });
}

fn a_subscription_bears_no_lies(world: World) {
    const SUBSCRIBED: &str = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    const HELLO: &str = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n";
    for (message, is_begun) in [
        (String::new(), false),
        ("+OK\r\n".to_owned(), false),
        ("-NOPERM this user has no permissions\r\n".to_owned(), false),
        (HELLO.to_owned(), false),
        (format!("{SUBSCRIBED}{HELLO}"), true),
        (format!("{SUBSCRIBED}{HELLO}{SUBSCRIBED}"), true),
        (format!("{SUBSCRIBED}{HELLO}:1\r\n"), true),
        (format!("{SUBSCRIBED}{HELLO}*1\r\n*1\r\n"), true),
        (format!("{SUBSCRIBED}{HELLO}*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$99999999\r\n"), true),
    ] {
        let told = message.clone();
        // The server says which process it is, sends this line and nothing more. It answers no
        // PING, and does not close.
        let address = fake(move |_, mut stream| {
            commands(&mut stream);
            stream.write_all(b"$9\r\nrun_id:1\r\r\n").unwrap();
            commands(&mut stream);
            stream.write_all(told.as_bytes()).unwrap();
            while commands(&mut stream).is_some() {}
        });
        let options = Options { reply_limit: Duration::from_millis(50), ..Options::default() };
        let location: Location = format!("redis://{address}").parse().unwrap();
        let channel = Channel::new(&location, "test", options).unwrap();
        world.run(async move {
            let Ok((_, mut subscription)) = channel.subscribe(None).await else {
                assert!(!is_begun, "{message}");
                return;
            };
            assert!(is_begun, "{message}");
            assert_eq!(subscription.next().await.unwrap().as_deref(), Some(&b"hello"[..]));
            until_it_ends(&mut subscription).await;
        });
    }
}

async fn until_it_ends(subscription: &mut Subscription) {
    let start = Instant::now();
    while let Ok(heard) = subscription.next().await {
        assert_eq!(heard, None);
        assert!(start.elapsed() < EVER, "a dead server is given up");
    }
}
