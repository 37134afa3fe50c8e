//! Tests how long the http service waits, in every world: for a head, a body and silence, and for a
//! client to take the reply. Limits are small, and a client never sleeps: it waits on its socket.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    time::Duration,
};

use duality_services::http::{Config, Http, Limits};
use tempfile::TempDir;

use crate::http_client::{Client, World, get, serve_in};

/// A time limit that no test reaches on any machine.
const EVER: Duration = Duration::from_secs(600);

/// Long enough for many small steps of a client, and short enough to wait for.
const SHORT: Duration = Duration::from_millis(150);

/// The wait between two bytes of a client that trickles.
const MOMENT: Duration = Duration::from_millis(1);

/// Long time limits. Each test shortens the limit that it tests.
fn patient() -> Limits {
    let (head_time, body_time, idle_time) = (EVER, EVER, EVER);
    let (write_time, linger_time) = (EVER, EVER);
    Limits { head_time, body_time, idle_time, write_time, linger_time, ..Limits::default() }
}

fn demo(world: World, limits: Limits) -> SocketAddr {
    serve_in(world, Http::new(Config { root: None, limits }).unwrap())
}

/// A directory with a file of so many zero bytes, which take no room on the disk.
fn serve_zeros(world: World, length: u64, limits: Limits) -> (TempDir, SocketAddr) {
    let root = TempDir::new().unwrap();
    fs::File::create(root.path().join("zeros")).unwrap().set_len(length).unwrap();
    let config = Config { root: Some(root.path().to_owned()), limits };
    let address = serve_in(world, Http::new(config).unwrap());
    (root, address)
}

/// Sends a byte at a time, at least [`MOMENT`] apart, until an answer comes.
fn trickle(client: &mut Client, byte: u8) -> u16 {
    let patience = client.stream.read_timeout().unwrap();
    client.stream.set_read_timeout(Some(MOMENT)).unwrap();
    while matches!(client.stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    {
        client.send([byte]);
    }
    client.stream.set_read_timeout(patience).unwrap();
    client.receive(false).code
}

/// Reads until the end. Returns how many bytes came, and whether a reset ended them.
fn drain(client: &mut Client) -> (u64, bool) {
    let (mut length, mut buffer) = (0, [0; 4096]);
    loop {
        match client.stream.read(&mut buffer) {
            Ok(0) => return (length, false),
            Ok(count) => length += count as u64,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                return (length, true);
            }
        }
    }
}

#[test]
fn a_head_that_trickles_is_cut_short_as_a_whole() {
    for world in World::all() {
        let address = demo(world, Limits { head_time: SHORT, ..patient() });
        for start in ["", "\r\n", "GET /", "GET / HTTP/1.1\r\nHost: h\r\nX: "] {
            let mut client = Client::connect(address);
            client.send(start);
            assert_eq!(trickle(&mut client, b'a'), 408, "{world:?}: {start:?}");
            client.expect_end();
        }
        // The limit applies to each head, not to the connection.
        let mut client = Client::connect(address);
        for _ in 0..3 {
            assert_eq!(client.ask(&get("/")).code, 200);
        }
        client.send("GET /");
        assert_eq!(trickle(&mut client, b'a'), 408, "{world:?}");
    }
}

#[test]
fn a_body_that_trickles_is_cut_short_as_a_whole() {
    for world in World::all() {
        let address = demo(world, Limits { body_time: SHORT, ..patient() });
        for framing in
            ["Content-Length: 60000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\neeee\r\n"]
        {
            // The service uses the body sent to `/`, and discards the body sent to `/hello.txt`.
            for target in ["/", "/hello.txt"] {
                let mut client = Client::connect(address);
                client.send(format!("POST {target} HTTP/1.1\r\nHost: h\r\n{framing}"));
                assert_eq!(trickle(&mut client, b'a'), 408, "{world:?}: {target} {framing:?}");
                client.expect_end();
            }
        }
    }
}

#[test]
fn silence_ends_a_connection_without_a_word() {
    for world in World::all() {
        let address = demo(world, Limits { idle_time: SHORT, ..patient() });
        Client::connect(address).expect_end();
        // The limit also holds after a request. But if the test is held up, the connection closes
        // before the request.
        let mut client = loop {
            let mut client = Client::connect(address);
            let asked = client.stream.write_all(get("/").as_bytes());
            if asked.is_ok() && client.stream.peek(&mut [0]).is_ok_and(|count| count > 0) {
                break client;
            }
        };
        assert_eq!(client.receive(false).code, 200);
        client.expect_end();
    }
}

#[test]
fn a_client_that_goes_on_sending_after_an_error_is_not_listened_to_for_long() {
    for world in World::all() {
        let limits = Limits { linger_time: SHORT, ..patient() };
        let mut client = Client::connect(demo(world, limits));
        client.send("NONSENSE\r\n\r\n");
        assert_eq!(client.receive(false).code, 400);
        client.expect_end();
        // The client has got the reply, and the server drops its bytes. Then the connection ends.
        send_until_reset(&mut client, b"a");
    }
}

#[test]
fn a_client_that_takes_nothing_is_reset() {
    for world in World::all() {
        let limits = Limits { write_time: SHORT, ..patient() };
        // The replies, from a file and from memory, are longer than the sockets' buffers.
        let (_root, files) = serve_zeros(world, 1 << 30, limits.clone());
        for (address, target) in [(files, "/zeros"), (demo(world, limits), "/large.txt")] {
            let requests = get(target).repeat(100);
            send_until_reset(&mut Client::connect(address), requests.as_bytes());
        }
    }
}

/// Sends and takes nothing, until the connection is gone. The server does not read while it waits
/// to write, so the client soon waits too.
fn send_until_reset(client: &mut Client, bytes: &[u8]) {
    client.stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    let error = loop {
        if let Err(error) = client.stream.write_all(bytes) {
            break error.kind();
        }
    };
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error:?}");
}

#[test]
fn a_client_that_takes_a_reply_too_slowly_is_reset() {
    // The client cannot receive so much within the limit, but each single write is faster.
    const LENGTH: u64 = 16 << 30;
    for world in World::all() {
        let limits = Limits { write_time: SHORT, write_rate: u64::MAX, ..patient() };
        let (_root, address) = serve_zeros(world, LENGTH, limits);
        let mut client = Client::connect(address);
        client.send(get("/zeros"));
        let (length, was_reset) = drain(&mut client);
        assert!(was_reset && length < LENGTH, "{world:?}: {length} bytes");
    }
}
