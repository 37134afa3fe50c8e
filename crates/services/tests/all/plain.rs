//! Tests the echo and time services over real sockets, in the block world.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use duality_runtime::{
    block_on,
    net::{self, ListenOptions, TcpListener},
};
use duality_services::{echo, time};

/// A client of a service that serves only this connection.
fn client<F>(service: impl FnOnce(net::TcpStream) -> F + Send + 'static) -> TcpStream
where
    F: Future<Output = std::io::Result<()>> + 'static,
{
    let mut listener =
        TcpListener::bind("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        block_on(async {
            let (stream, _) = listener.accept().await.unwrap();
            service(stream).await.unwrap();
        });
    });
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client
}

#[test]
fn echo_returns_every_byte_and_ends_with_the_client() {
    let mut client = client(echo::serve);
    let sent: Vec<u8> = (0..1_000_000u32).map(|number| (number >> 3) as u8).collect();
    let mut writer = client.try_clone().unwrap();
    let copy = sent.clone();
    let sender = thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert!(received == sent);
}

/// The line arrives although the server has unread bytes, which make the close a reset.
#[test]
fn time_is_told_whatever_the_client_sends() {
    let barrier = Arc::new(Barrier::new(2));
    let gate = barrier.clone();
    let mut client = client(|stream| async move {
        gate.wait();
        time::serve(stream).await
    });
    client.write_all(b"what time is it?").unwrap();
    barrier.wait();
    let mut line = String::new();
    client.read_to_string(&mut line).unwrap();
    assert_eq!(line.len(), time::LINE_LENGTH);
}

#[test]
fn time_is_one_line() {
    let mut line = String::new();
    client(time::serve).read_to_string(&mut line).unwrap();
    assert_eq!(line.len(), time::LINE_LENGTH);
    assert!(line.starts_with("20") && line.ends_with("Z\r\n"), "{line:?}");
    assert_eq!(&line[10..11], "T");
}
