//! A client that leaves while its request waits for the store frees its place. In these tests no
//! wait for the store ends by itself, so a service that waited on would never end.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::task::{self, JoinHandle};
use duality_services::guestbook::Guestbook;
use duality_services::http::{Config, Limits};
use duality_services::phone::Phone;
use duality_services::store::{Location, Options, Store};
use rusqlite::Connection;
use tempfile::TempDir;

use super::worlds::{EVER, World, in_every_world};

in_every_world! { given:
    clients_that_leave_a_locked_file_free_their_places
    a_client_that_leaves_a_silent_redis_frees_its_place
    a_visitor_who_leaves_frees_its_place
    a_half_closed_client_is_waited_for_on_request
}

/// No limit of the store ends a wait.
fn patient() -> Options {
    let ever = Duration::from_secs(100_000);
    Options { turn_limit: ever, reply_limit: ever, ..Options::default() }
}

/// A store in a file, and another program that has locked the file.
fn locked(directory: &TempDir) -> (Store, Connection) {
    let path = directory.path().join("store.db");
    let store = Store::new(&Location::sqlite(&path), patient()).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    (store, other)
}

async fn listener() -> (TcpListener, SocketAddr) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A connection to a phone service that serves only this connection, and the end of the service.
async fn connect(phone: &Phone) -> (TcpStream, JoinHandle<io::Result<()>>) {
    let (mut listener, address) = listener().await;
    let phone = phone.clone();
    let served = task::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        phone.serve(stream).await
    });
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_read_timeout(Some(EVER)).unwrap();
    (stream, served.unwrap())
}

fn clients_that_leave_a_locked_file_free_their_places(world: World) {
    let directory = TempDir::new().unwrap();
    let (store, _other) = locked(&directory);
    world.run(async move {
        let phone = Phone::new(store);
        // The first one asks for the lock again and again. The others wait for their turn.
        let mut served = Vec::new();
        for number in 0..3 {
            let (mut stream, service) = connect(&phone).await;
            // Further requests, unread before the end of the connection, must not hide the end.
            let lines = format!("ADD ann {number}\nFIND ann\nADD bob 1\n");
            stream.write_all(lines.as_bytes()).await.unwrap();
            served.push(service);
        }
        for service in served {
            let error = service.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        }
    });
}

fn a_client_that_leaves_a_silent_redis_frees_its_place(world: World) {
    world.run(async move {
        let (mut listener, address) = listener().await;
        // It takes connections, and says nothing.
        let silent = task::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            while stream.read(&mut [0; 1024]).await.unwrap() > 0 {}
        });
        let location: Location = format!("redis://{address}").parse().unwrap();
        let store = Store::new(&location, patient()).unwrap();
        let (mut stream, served) = connect(&Phone::new(store)).await;
        stream.write_all(b"FIND ann\n").await.unwrap();
        drop(stream);
        let error = served.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        // The connection to Redis has an outstanding reply, so it is closed.
        silent.unwrap().await.unwrap();
    });
}

fn a_visitor_who_leaves_frees_its_place(world: World) {
    let directory = TempDir::new().unwrap();
    let (store, _other) = locked(&directory);
    world.run(async move {
        let config = Config { root: None, limits: Limits::default() };
        let guestbook = Guestbook::new(config, None, store).unwrap();
        let (mut listener, address) = listener().await;
        let served = task::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = guestbook.serve(stream).await;
        });
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /guestbook HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
        drop(stream);
        served.unwrap().await.unwrap();
    });
}

fn a_half_closed_client_is_waited_for_on_request(world: World) {
    let directory = TempDir::new().unwrap();
    let (store, other) = locked(&directory);
    world.run(async move {
        let (mut stream, served) = connect(&Phone::new(store).serving_half_closed(true)).await;
        stream.write_all(b"ADD ann 1\n").await.unwrap();
        stream.shutdown(Shutdown::Write).await.unwrap();
        // Longer than the wait after which the others are looked for.
        duality_runtime::time::sleep(Duration::from_millis(700)).await;
        other.execute_batch("ROLLBACK").unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(&reply, b"ADDED ann 1\n");
        served.await.unwrap().unwrap();
    });
}
