//! Tests the store in a real Redis, which is killed and comes back.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use duality_runtime::task;
use duality_services::store::{Channel, Location, Options, RedisCalls, Store, Subscription, Visit};
use tempfile::TempDir;

use super::contract::{self, remark};
use super::worlds::{EVER, World, eventually, in_every_world};
use crate::kept_port::KeptPort;

in_every_world! { given:
    what_is_kept_is_found
    tasks_count_together
    three_calls_find_the_same
    a_restart_between_calls_goes_unnoticed
    a_dead_server_is_unavailable_until_it_is_back
    what_is_acknowledged_while_it_dies_is_there
    databases_and_passwords_are_respected
    what_is_published_is_heard_once_and_in_one_order
    a_subscription_outlasts_silence_and_ends_with_its_server
    databases_have_channels_of_their_own
}

/// The password of a server that asks for one, as a location has it.
const PASSWORD: &str = "s%40cret";

/// A server for one test.
struct Server {
    directory: TempDir,
    port: KeptPort,
    asks: bool,
    process: Child,
}

impl Server {
    fn start() -> Self {
        Self::start_asking(false)
    }

    /// Starts a server, with or without a password.
    fn start_asking(asks: bool) -> Self {
        let directory = TempDir::new().unwrap();
        let port = KeptPort::keep();
        let process = spawn(&directory, port.address(), asks);
        Self { directory, port, asks, process }
    }

    fn store(&self) -> Store {
        self.store_with("", Options::default())
    }

    /// A store on this server. `rest` follows the address in the location.
    fn store_with(&self, rest: &str, options: Options) -> Store {
        let location = format!("redis://{}{rest}", self.port.address());
        Store::new(&location.parse().unwrap(), options).unwrap()
    }

    fn channel(&self, rest: &str) -> Channel {
        let location = format!("redis://{}{rest}", self.port.address());
        Channel::new(&location.parse().unwrap(), "test", Options::default()).unwrap()
    }

    /// Kills the server as `kill -9` does.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts the server again, at the same port and with its saved data.
    fn restart(&mut self) {
        self.process = spawn(&self.directory, self.port.address(), self.asks);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have been killed before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server and waits until it replies.
fn spawn(directory: &TempDir, address: SocketAddr, asks: bool) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
    // Without `always`, an acknowledged write may not have reached the kernel yet.
    command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    command.arg("--dir").arg(directory.path());
    if asks {
        command.args(["--requirepass", "s@cret"]);
    }
    let process = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server cannot be run: `cargo xtask test` installs what the tests need");
    // A restarted server loads its data before it serves.
    eventually("a server that replies", || says(address, "loading:0").then_some(()));
    process
}

/// Whether the reply of the server to INFO has this line.
fn says(address: SocketAddr, expected: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    stream.set_read_timeout(Some(EVER)).unwrap();
    if stream.write_all(b"AUTH s@cret\r\nINFO\r\nQUIT\r\n").is_err() {
        return false;
    }
    BufReader::new(stream).lines().map_while(Result::ok).any(|line| line == expected)
}

/// Visits until the store is back.
async fn visited(store: &Store) -> Visit {
    let start = Instant::now();
    loop {
        match store.visit(usize::MAX).await {
            Ok(visit) => return visit,
            Err(error) => assert!(start.elapsed() < EVER, "{error}"),
        }
        task::yield_now().await;
    }
}

fn what_is_kept_is_found(world: World) {
    let server = Server::start();
    contract::what_is_kept_is_found(world, &location(&server));
}

fn tasks_count_together(world: World) {
    let server = Server::start();
    contract::tasks_count_together(world, &location(&server));
}

fn location(server: &Server) -> Location {
    format!("redis://{}", server.port.address()).parse().unwrap()
}

fn three_calls_find_the_same(world: World) {
    let server = Server::start();
    let options = Options { redis_calls: RedisCalls::Separate, ..Options::default() };
    let store = server.store_with("", options);
    world.run(async move {
        assert_eq!(store.visit(5).await.unwrap(), Visit { visitors: 1, remarks: vec![] });
        store.add_remark(&remark("ann", "hello")).await.unwrap();
        let remarks = vec![remark("ann", "hello")];
        assert_eq!(store.visit(5).await.unwrap(), Visit { visitors: 2, remarks });
    });
}

fn a_restart_between_calls_goes_unnoticed(world: World) {
    let mut server = Server::start();
    let store = server.store();
    world.run(async move {
        for visitor in 1..5 {
            assert_eq!(store.visit(1).await.unwrap().visitors, visitor);
            server.kill();
            server.restart();
        }
        store.add_remark(&remark("ann", "hello")).await.unwrap();
    });
}

fn a_dead_server_is_unavailable_until_it_is_back(world: World) {
    let mut server = Server::start();
    let store = server.store();
    world.run(async move {
        store.add_remark(&remark("ann", "hello")).await.unwrap();
        store.visit(1).await.unwrap();
        server.kill();
        let error = store.visit(1).await.unwrap_err().to_string();
        assert!(error.contains(&format!("{} is unavailable", server.port.address())), "{error}");
        store.add_remark(&remark("ann", "again")).await.unwrap_err();
        store.add_entry("ann", "1").await.unwrap_err();
        store.find_entry("ann").await.unwrap_err();
        server.restart();
        let visit = visited(&store).await;
        assert_eq!(visit, Visit { visitors: 2, remarks: vec![remark("ann", "hello")] });
    });
}

fn what_is_acknowledged_while_it_dies_is_there(world: World) {
    const TASKS: usize = 8;
    /// The least number of entries that each task keeps, before the server dies and after it is
    /// back.
    const KEPT: usize = 10;
    let mut server = Server::start();
    let store = server.store();
    let kept_before = Arc::new(AtomicUsize::new(0));
    let is_back = Arc::new(AtomicBool::new(false));
    let (before, back) = (kept_before.clone(), is_back.clone());
    let executioner = thread::spawn(move || {
        eventually("a store that keeps", || {
            (before.load(Ordering::Relaxed) >= TASKS * KEPT).then_some(())
        });
        server.kill();
        server.restart();
        back.store(true, Ordering::Relaxed);
        server
    });
    world.run(async move {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (store, before, back) = (store.clone(), kept_before.clone(), is_back.clone());
                task::spawn(async move {
                    let (start, mut kept, mut after) = (Instant::now(), vec![], 0);
                    for number in 0.. {
                        let name = format!("{task}-{number}");
                        if store.add_entry(&name, "1").await.is_ok() {
                            before.fetch_add(1, Ordering::Relaxed);
                            after += usize::from(back.load(Ordering::Relaxed));
                            kept.push(name);
                        }
                        if after >= KEPT {
                            break;
                        }
                        assert!(start.elapsed() < EVER, "the store did not come back");
                        task::yield_now().await;
                    }
                    kept
                })
                .unwrap()
            })
            .collect();
        let mut kept = HashSet::new();
        for task in tasks {
            kept.extend(task.await.unwrap());
        }
        let server = executioner.join().unwrap();
        for name in kept {
            let found = store.find_entry(&name).await.unwrap();
            assert_eq!(found.as_deref(), Some("1"), "{name} was acknowledged and is lost");
        }
        drop(server);
    });
}

fn databases_and_passwords_are_respected(world: World) {
    let server = Server::start_asking(true);
    let store = |credentials: &str, rest: &str| {
        let location = format!("redis://{credentials}{}{rest}", server.port.address());
        Store::new(&location.parse().unwrap(), Options::default()).unwrap()
    };
    let right = store(&format!(":{PASSWORD}@"), "");
    let by_name = store(&format!("default:{PASSWORD}@"), "/0");
    let other = store(&format!(":{PASSWORD}@"), "/3");
    let beyond = store(&format!(":{PASSWORD}@"), "/99");
    let (wrong, none) = (store(":secret@", ""), store("", ""));
    world.run(async move {
        right.add_entry("ann", "1").await.unwrap();
        assert_eq!(by_name.find_entry("ann").await.unwrap().as_deref(), Some("1"));
        assert_eq!(other.find_entry("ann").await.unwrap(), None);
        for (store, expected) in [(beyond, "index"), (wrong, "WRONGPASS"), (none, "NOAUTH")] {
            let error = store.find_entry("ann").await.unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
    });
    drop(server);
}

/// The next message. Skips silence.
async fn message(subscription: &mut Subscription) -> String {
    loop {
        if let Some(message) = subscription.next().await.unwrap() {
            return String::from_utf8(message).unwrap();
        }
    }
}

fn what_is_published_is_heard_once_and_in_one_order(world: World) {
    const PUBLISHERS: usize = 20;
    const MESSAGES: usize = 50;
    let server = Server::start();
    let channel = server.channel("");
    world.run(async move {
        let (mut one, mut other) =
            (channel.subscribe().await.unwrap(), channel.subscribe().await.unwrap());
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|publisher| {
                let channel = channel.clone();
                task::spawn(async move {
                    for message in 0..MESSAGES {
                        let message = format!("{publisher}: {message}\r\n");
                        channel.publish(message.as_bytes()).await.unwrap();
                    }
                })
                .unwrap()
            })
            .collect();
        let mut next = [0; PUBLISHERS];
        for _ in 0..PUBLISHERS * MESSAGES {
            let heard = message(&mut one).await;
            let (publisher, number) = heard.trim_end().split_once(": ").unwrap();
            let next = &mut next[publisher.parse::<usize>().unwrap()];
            assert_eq!(number.parse(), Ok(*next), "{heard}");
            *next += 1;
            assert_eq!(message(&mut other).await, heard);
        }
        for publisher in publishers {
            publisher.await.unwrap();
        }
        assert_eq!(one.next().await.unwrap(), None, "nothing comes after the last");
    });
    drop(server);
}

fn a_subscription_outlasts_silence_and_ends_with_its_server(world: World) {
    let mut server = Server::start();
    let channel = server.channel("");
    world.run(async move {
        assert_eq!(channel.number().await.unwrap(), 1);
        let mut subscription = channel.subscribe().await.unwrap();
        // The subscriber pings Redis, and Redis answers.
        for _ in 0..3 {
            assert_eq!(subscription.next().await.unwrap(), None);
        }
        channel.publish(b"hello").await.unwrap();
        assert_eq!(message(&mut subscription).await, "hello");
        server.kill();
        let error = subscription.next().await.unwrap_err().to_string();
        assert!(error.contains("is unavailable: it broke the connection"), "{error}");
        assert!(channel.publish(b"hello").await.is_err());
        server.restart();
        let start = Instant::now();
        let mut subscription = loop {
            match channel.subscribe().await {
                Ok(subscription) => break subscription,
                Err(error) => assert!(start.elapsed() < EVER, "{error}"),
            }
            task::yield_now().await;
        };
        channel.publish(b"again").await.unwrap();
        assert_eq!(message(&mut subscription).await, "again");
        assert_eq!(channel.number().await.unwrap(), 2);
    });
}

fn databases_have_channels_of_their_own(world: World) {
    let server = Server::start();
    let (first, second) = (server.channel(""), server.channel("/1"));
    world.run(async move {
        let mut heard = first.subscribe().await.unwrap();
        second.publish(b"not for the first").await.unwrap();
        first.publish(b"for the first").await.unwrap();
        assert_eq!(message(&mut heard).await, "for the first");
        assert_eq!((first.number().await, second.number().await), (Ok(1), Ok(1)));
    });
    drop(server);
}
