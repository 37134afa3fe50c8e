//! A client that repeats its request costs the heap nothing.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the client is a plain blocking program, and the server a plain thread"
)]

use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::Instant,
};

use duality_runtime::{
    block_on,
    net::{ListenOptions, TcpListener},
};
use duality_services::http::Http;

#[test]
fn repeated_requests_allocate_nothing() {
    const REQUESTS: usize = 900;
    let mut listener =
        TcpListener::bind("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let http = Http::demo();
        let (stream, _) = block_on(listener.accept()).unwrap();
        let start = Instant::now();
        // It counts on this thread alone.
        let counted = allocation_counter::measure(|| block_on(http.serve(stream)).unwrap());
        (counted.count_total, start.elapsed())
    });

    let mut client = TcpStream::connect(address).unwrap();
    let mut reply = [0; 4096];
    for _ in 0..REQUESTS {
        client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        let mut length = 0;
        while !reply[..length].ends_with(b"</p>\n") {
            length += client.read(&mut reply[length..]).unwrap();
        }
    }
    drop(client);

    // The buffers of the connection, and in each new second a look at the page.
    let (allocations, elapsed) = server.join().unwrap();
    let allowed = 20 * (2 + elapsed.as_secs());
    assert!(allocations <= allowed, "{allocations} allocations for {REQUESTS} requests");
}
