//! Tests the phone service over real sockets, with a store that comes and goes.

use std::fs;
use std::net::SocketAddr;

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::task;
use duality_services::phone::Phone;
use duality_services::store::{Location, Options, Store};
use tempfile::TempDir;

use super::worlds::{EVER, World, in_every_world};

in_every_world! { given:
    entries_are_added_and_found
    pipelined_requests_are_answered_in_order
    what_is_malformed_is_answered_and_forgotten
    a_long_line_ends_the_connection
    a_store_that_is_away_is_said_to_be
}

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// A client of a service that serves only this connection, on a store.
    async fn of(store: Store) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
        let address = listener.local_addr().unwrap();
        task::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            Phone::new(store).serve(stream).await.unwrap();
        })
        .unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_read_timeout(Some(EVER)).unwrap();
        Self { stream, received: vec![] }
    }

    async fn say(&mut self, lines: &str) {
        self.stream.write_all(lines.as_bytes()).await.unwrap();
    }

    /// The next line. `None` at the end.
    async fn hear(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Some(String::from_utf8(line).unwrap());
            }
            let mut bytes = [0; 1024];
            match self.stream.read(&mut bytes).await.unwrap() {
                0 => return None,
                length => self.received.extend_from_slice(&bytes[..length]),
            }
        }
    }

    /// Sends a line and expects a line.
    async fn expect(&mut self, line: &str, expected: &str) {
        self.say(&format!("{line}\n")).await;
        assert_eq!(self.hear().await.as_deref(), Some(format!("{expected}\n").as_str()), "{line}");
    }
}

fn store(directory: &TempDir) -> Store {
    let location = Location::sqlite(directory.path().join("store.db"));
    Store::new(&location, Options::default()).unwrap()
}

fn entries_are_added_and_found(world: World) {
    let directory = TempDir::new().unwrap();
    let store = store(&directory);
    world.run(async move {
        let mut client = Client::of(store.clone()).await;
        client.expect("FIND Zoë", "NONE Zoë").await;
        client.expect("ADD Zoë +44-(0)1", "ADDED Zoë +44-(0)1").await;
        client.expect("FIND Zoë\r", "FOUND Zoë +44-(0)1").await;
        client.expect("ADD Zoë 2", "ADDED Zoë 2").await;
        Client::of(store).await.expect("FIND Zoë", "FOUND Zoë 2").await;
    });
}

fn pipelined_requests_are_answered_in_order(world: World) {
    let directory = TempDir::new().unwrap();
    let store = store(&directory);
    world.run(async move {
        let mut client = Client::of(store).await;
        let requests = |number| format!("ADD n{number} {number}\nFIND n{number}\n");
        client.say(&(0..100).map(requests).collect::<String>()).await;
        for number in 0..100 {
            let replies = [client.hear().await.unwrap(), client.hear().await.unwrap()];
            let expected = ["ADDED", "FOUND"].map(|word| format!("{word} n{number} {number}\n"));
            assert_eq!(replies, expected);
        }
    });
}

fn what_is_malformed_is_answered_and_forgotten(world: World) {
    let directory = TempDir::new().unwrap();
    let store = store(&directory);
    world.run(async move {
        let mut client = Client::of(store).await;
        for line in ["", "HELP", "ADD ann", "ADD ann one", "FIND a b", "FIND a\u{7}b"] {
            client.say(&format!("{line}\n")).await;
            let reply = client.hear().await.unwrap();
            assert!(reply.starts_with("ERROR "), "{line}: {reply}");
        }
        client.expect("FIND ann", "NONE ann").await;
    });
}

fn a_long_line_ends_the_connection(world: World) {
    let directory = TempDir::new().unwrap();
    let store = store(&directory);
    world.run(async move {
        let mut client = Client::of(store).await;
        client.say(&format!("FIND {}\n", "x".repeat(251))).await;
        assert!(client.hear().await.unwrap().starts_with("ERROR a name"));
        client.say(&format!("FIND {}\nFIND ann\n", "x".repeat(252))).await;
        assert_eq!(client.hear().await.unwrap(), "ERROR a line is at most 256 bytes\n");
        assert_eq!(client.hear().await, None);
    });
}

fn a_store_that_is_away_is_said_to_be(world: World) {
    let directory = TempDir::new().unwrap();
    let store = store(&directory);
    world.run(async move {
        let mut client = Client::of(store).await;
        client.expect("ADD ann 1", "ADDED ann 1").await;
        let (path, elsewhere) =
            ["store.db", "away.db"].map(|name| directory.path().join(name)).into();
        fs::rename(&path, &elsewhere).unwrap();
        client.expect("ADD bob 2", "ERROR the store is unavailable").await;
        client.expect("FIND ann", "ERROR the store is unavailable").await;
        fs::rename(&elsewhere, &path).unwrap();
        client.expect("ADD bob 2", "ADDED bob 2").await;
        client.expect("FIND ann", "FOUND ann 1").await;
    });
}
