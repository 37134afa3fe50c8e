//! Tests promises that only the loop can break. A client that never rests leaves room for others.
//! Repeated requests cost the heap nothing. A drain ends the loop. There is one test, because a
//! drain applies to the whole process.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use duality_architectures::ByHand;
use duality_architectures::common::admission::Admission;
use duality_architectures::common::wait_queue::Limit;
use duality_runtime::drain;
use duality_runtime::net::{ListenOptions, TcpListener};
use duality_services::http::Http;

/// Serves on a free port. Returns how often the loop's thread allocated, and how long it ran.
fn serve(program: ByHand) -> (SocketAddr, JoinHandle<(u64, Duration)>) {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let start = Instant::now();
        let run = program(Limit::none()).unwrap();
        let counted = allocation_counter::measure(|| run(listener, Admission::unlimited()));
        (counted.count_total, start.elapsed())
    });
    (address, server)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

#[test]
fn floods_leave_room_and_requests_allocate_nothing_until_a_drain_ends_all() {
    let (echo, echo_server) = serve(duality_handwritten::echo());
    let (http, http_server) = serve(duality_handwritten::http(Http::demo()));
    others_are_served_beside_a_flood(echo);
    let mut client = connect(http);
    ask(&mut client, 900);
    drain::request();
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "it sees the end");
    echo_server.join().unwrap();
    let (allocations, elapsed) = http_server.join().unwrap();
    // Allows for the buffers of the loop and the connection, and one look at the page each second.
    let allowed = 20 * (2 + elapsed.as_secs());
    assert!(allocations <= allowed, "{allocations} allocations");
}

/// One client sends and receives without a pause, so that the server's attempts seldom block.
/// Beside it, another client asks for a byte at a time.
fn others_are_served_beside_a_flood(echo: SocketAddr) {
    let mut flood = connect(echo);
    let mut back = flood.try_clone().unwrap();
    let sender = thread::spawn(move || while flood.write_all(&[7; 1 << 16]).is_ok() {});
    let stop = back.try_clone().unwrap();
    let taker = thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        while let Ok(1..) = back.read(&mut buffer) {}
    });
    let mut other = connect(echo);
    for byte in 0..100 {
        other.write_all(&[byte]).unwrap();
        let mut same = [0];
        other.read_exact(&mut same).unwrap();
        assert_eq!(same, [byte]);
    }
    stop.shutdown(Shutdown::Both).unwrap();
    sender.join().unwrap();
    taker.join().unwrap();
}

fn ask(client: &mut TcpStream, requests: usize) {
    let mut reply = [0; 4096];
    for _ in 0..requests {
        client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        let mut length = 0;
        while !reply[..length].ends_with(b"</p>\n") {
            length += client.read(&mut reply[length..]).unwrap();
        }
    }
}
