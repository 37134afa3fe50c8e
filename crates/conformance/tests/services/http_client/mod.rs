//! A plain blocking HTTP client for the tests of this folder, and a server for it, in any world.

#![allow(dead_code, reason = "each test file uses what it needs")]
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use duality_architectures::common::admission::Admission;
use duality_architectures::common::wait_queue::Limit;
use duality_kit::Case;
use duality_runtime::{net, task};
use duality_services::http::Http;

/// How connections are served.
#[derive(Clone, Copy, Debug)]
pub(crate) enum World {
    /// Straight-line code, in a world of the runtime.
    Of(Case),
    /// Each connection is a state machine of one loop, both written by hand.
    ByHand,
}

impl World {
    pub(crate) const BLOCK: World = World::Of(Case::Block);

    pub(crate) fn all() -> impl Iterator<Item = World> + Clone {
        Case::EACH_WORLD.into_iter().map(World::Of).chain([World::ByHand])
    }
}

/// Serves http on a free port for as long as the test process lives, in the block world.
pub(crate) fn serve(http: Http) -> SocketAddr {
    serve_in(World::BLOCK, http)
}

/// Serves http like [`serve`], in any world.
pub(crate) fn serve_in(world: World, http: Http) -> SocketAddr {
    match world {
        World::ByHand => serve_by_hand(http),
        World::Of(case) => serve_connections_in(case, move |stream| {
            let http = http.clone();
            async move { http.serve(stream).await }
        }),
    }
}

fn serve_by_hand(http: Http) -> SocketAddr {
    let listener = bind();
    let address = listener.local_addr().unwrap();
    let open = duality_handwritten::http(http);
    thread::spawn(move || open(Limit::none()).unwrap()(listener, Admission::unlimited()));
    address
}

/// Serves connections on a free port for as long as the test process lives, in the block world.
pub(crate) fn serve_connections<S, F>(serve: S) -> SocketAddr
where
    S: Fn(net::TcpStream) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    serve_connections_in(Case::Block, serve)
}

/// Serves connections on a free port for as long as the test process lives, in any world.
pub(crate) fn serve_connections_in<S, F>(case: Case, serve: S) -> SocketAddr
where
    S: Fn(net::TcpStream) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut listener = bind();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        case.run(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = serve(stream);
                // The client checks how the connection ended.
                task::spawn(async move { drop(served.await) }).unwrap();
            }
            // The process drains. The world goes on for the connections under way.
            std::future::pending::<()>().await;
        });
    });
    address
}

fn bind() -> net::TcpListener {
    let any_port = "127.0.0.1:0".parse().unwrap();
    net::TcpListener::bind(any_port, &net::ListenOptions::default()).unwrap()
}

/// A client with a time limit, after which its test fails.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).unwrap();
    }

    /// The next reply. `to_head`: its request was a HEAD.
    pub(crate) fn receive(&mut self, to_head: bool) -> Reply {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.read_more(), "the connection ended in a head: {:?}", self.text());
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply { code, head, body: Vec::new() };
        if !to_head && code != 304 {
            let length: usize = reply.field("Content-Length").unwrap().parse().unwrap();
            while self.received.len() < length {
                assert!(self.read_more(), "the connection ended in a body");
            }
            reply.body = self.received.drain(..length).collect();
        }
        reply
    }

    pub(crate) fn ask(&mut self, text: &str) -> Reply {
        self.send(text);
        self.receive(text.starts_with("HEAD"))
    }

    /// Whether more bytes come before the end.
    pub(crate) fn has_more(&mut self) -> bool {
        !self.received.is_empty() || self.read_more()
    }

    /// Waits for these bytes and no others.
    pub(crate) fn expect_bytes(&mut self, expected: &[u8]) {
        while self.received.len() < expected.len() && self.read_more() {}
        assert_eq!(self.text(), String::from_utf8_lossy(expected));
        self.received.clear();
    }

    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let length = self.stream.read(&mut buffer).expect("the server answers or closes in time");
        self.received.extend_from_slice(&buffer[..length]);
        length > 0
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Checks that the server sends nothing more and closes, without a reset.
    pub(crate) fn expect_end(&mut self) {
        assert!(self.received.is_empty() && !self.read_more(), "more came: {:?}", self.text());
    }
}

pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
}

pub(crate) fn get_with(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n\r\n")
}
