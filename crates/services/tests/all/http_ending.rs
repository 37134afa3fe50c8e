//! Tests the end of a connection in every world. The last reply arrives whole, whatever the client
//! sends after its last request.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use duality_services::http::{
    Answer, Asked, Config, Http, Limits, Offer, Pages, Reply,
    status::{self, Status},
};

use crate::http_client::{Client, World, get, serve_in};

const ASKED: &str = "GET /gate HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";

/// A page that waits twice at the test's barrier before it answers.
struct Gate {
    barrier: Arc<Barrier>,
    length: usize,
}

impl Pages for Gate {
    fn offer(&self, path: &str) -> Option<Offer> {
        (path == "gate").then_some(Offer { post: Some(100) })
    }

    fn answer<'p>(&'p self, _: Asked<'p>) -> Answer<'p> {
        self.barrier.wait();
        self.barrier.wait();
        let (fields, body) = (Vec::new(), vec![b'x'; self.length]);
        let status: &'static Status = &status::OK;
        Box::pin(async move { Some(Reply { status, content_type: "text/plain", fields, body }) })
    }
}

/// A server of a page of so many bytes, with limits that no test machine reaches.
fn serve_gate(world: World, length: usize) -> (Arc<Barrier>, SocketAddr) {
    let barrier = Arc::new(Barrier::new(2));
    let gate = Gate { barrier: barrier.clone(), length };
    let http = Http::with_pages(Config { root: Some("/".into()), limits: patient() }, gate);
    (barrier, serve_in(world, http.unwrap()))
}

fn patient() -> Limits {
    Limits { linger_time: Duration::from_secs(60), ..Limits::default() }
}

/// The server reads the request, then `late` comes, and then the server sends a reply of `length`
/// bytes.
fn reply_in_spite_of(world: World, request: &str, late: &[u8], length: usize) {
    let (barrier, address) = serve_gate(world, length);
    let mut client = Client::connect(address);
    client.send(request);
    barrier.wait();
    client.send(late);
    barrier.wait();
    let reply = client.receive(false);
    assert_eq!((reply.code, reply.field("Connection")), (200, Some("close")), "{world:?}");
    assert_eq!(reply.body.len(), length, "{world:?}: {late:?}");
    client.expect_end();
}

#[test]
fn the_last_reply_arrives_though_bytes_follow_the_last_request() {
    let post = ASKED.replace("GET", "POST").replace("\r\n\r\n", "\r\nContent-Length: 1\r\n\r\nx");
    for world in World::all() {
        for late in ["\r\n", &get("/"), &"x".repeat(100_000)] {
            reply_in_spite_of(world, ASKED, late.as_bytes(), 305);
            reply_in_spite_of(world, &post, late.as_bytes(), 305);
        }
    }
}

#[test]
fn a_long_last_reply_arrives_though_bytes_follow_the_last_request() {
    // The reply is longer than the kernel takes at once.
    const LENGTH: usize = 8 << 20;
    for world in World::all() {
        reply_in_spite_of(world, ASKED, b"\r\n", LENGTH);
    }
}

#[test]
fn all_replies_arrive_though_more_requests_follow_than_are_answered() {
    let request = format!("{}X: {}\r\n\r\n", get("/").trim_end(), "x".repeat(3_900));
    let request = request.replace("testX", "test\r\nX");
    for world in World::all() {
        let http = Http::new(Config { root: None, limits: patient() }).unwrap();
        let mut client = Client::connect(serve_in(world, http));
        let mut writer = client.stream.try_clone().unwrap();
        let all = request.repeat(3_000);
        let sender = thread::spawn(move || writer.write_all(all.as_bytes()));
        for number in 1..=1_000 {
            let reply = client.receive(false);
            let last = reply.field("Connection") == Some("close");
            assert_eq!((reply.code, last), (200, number == 1_000), "{world:?}: reply {number}");
        }
        client.expect_end();
        // The client reads the rest too, so that no reset overtakes a reply.
        sender.join().unwrap().unwrap();
    }
}
