//! Tests the relay with clients that are slow, leave, or ask for a WebSocket, in every world.

use std::{
    io::{Read, Write},
    net::Shutdown,
    thread,
    time::Duration,
};

use duality_services::relay::{Config, Limits};
use rustix::net::sockopt::set_socket_linger;

use crate::http_client::{Client, get};
use crate::relay_rig::{EVER, SHORT, WORLDS, patient, read_all, relay, relay_with, serve};
use crate::relay_upstream::Upstream;

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let half = "POST /silent HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\nabc";
    for world in WORLDS {
        let upstream = Upstream::start();
        let limits = Limits { look_time: SHORT, ..patient() };
        let address = relay_with(world, &[upstream.address], limits);
        let next = get("/silent") + &get("/the-next-one");
        for (request, resets) in
            [(&*get("/silent"), false), (&next, false), (&get("/silent"), true), (half, false)]
        {
            let mut client = Client::connect(address);
            client.send(request);
            upstream.expect_silent(1);
            if resets {
                set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
            }
            drop(client);
            upstream.expect_silent(0);
        }
        assert_eq!(Client::connect(address).ask(&get("/")).code, 200, "{world:?}");
    }
}

#[test]
fn a_half_closed_client_is_served_if_the_relay_is_told_so() {
    for world in WORLDS {
        let upstream = Upstream::start();
        let limits = Limits { look_time: SHORT, reply_time: SHORT * 4, ..patient() };
        let config = Config { upstreams: vec![upstream.address], limits, ..Config::default() };
        for serves_half_closed in [false, true] {
            let address = serve(world, Config { serves_half_closed, ..config.clone() });
            let mut client = Client::connect(address);
            client.send(get("/silent"));
            client.stream.shutdown(Shutdown::Write).unwrap();
            let (reply, was_reset) = read_all(&mut client);
            let is_late = reply.starts_with("HTTP/1.1 504 ");
            assert!(is_late == serves_half_closed && !was_reset, "{world:?}: {reply}");
            // A reply that comes before the look is for everybody.
            let limits = Limits { look_time: EVER, ..patient() };
            let address = serve(world, Config { limits, serves_half_closed, ..config.clone() });
            let mut client = Client::connect(address);
            client.send(get("/"));
            client.stream.shutdown(Shutdown::Write).unwrap();
            assert!(read_all(&mut client).0.ends_with("hello"), "{world:?}");
        }
    }
}

#[test]
fn a_late_permission_to_send_the_body_is_waited_for() {
    for world in WORLDS {
        let upstream = Upstream::start();
        let mut limits = patient();
        limits.client.body_time = SHORT / 2;
        let address = relay_with(world, &[upstream.address], limits);
        let mut client = Client::connect(address);
        client.send(
            "POST /late-continue HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
             Content-Length: 4\r\n\r\n",
        );
        let mut interim = [0; 25];
        client.stream.read_exact(&mut interim).unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n", "{world:?}");
        client.send("body");
        assert_eq!(client.receive(false).body, b"body", "{world:?}");
        // From then on, the client has its time.
        client.send(
            "POST /continue HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
             Content-Length: 4\r\n\r\n",
        );
        client.stream.read_exact(&mut interim).unwrap();
        assert_eq!(client.receive(false).code, 408, "{world:?}");
    }
}

#[test]
fn a_web_socket_comes_about_and_no_other_protocol() {
    let ask = |protocol: &str| {
        format!(
            "GET /switch HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
             Upgrade: {protocol}\r\nSec-WebSocket-Key: x\r\n\r\n"
        )
    };
    for world in WORLDS {
        let upstream = Upstream::start();
        let address = relay(world, &upstream);
        let mut client = Client::connect(address);
        client.send(ask("WebSocket") + "early ");
        let expected = "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: y\r\n\
            Connection: upgrade\r\nUpgrade: websocket\r\n\r\nearly ";
        let mut begun = vec![0; expected.len()];
        client.stream.read_exact(&mut begun).unwrap();
        assert_eq!(String::from_utf8(begun).unwrap(), expected, "{world:?}");
        // Much in both directions at once, and an end that passes on.
        let mut writer = client.stream.try_clone().unwrap();
        let sender = thread::spawn(move || {
            (0..200).for_each(|_| writer.write_all(&[b'x'; 10_000]).unwrap());
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let (echoed, was_reset) = read_all(&mut client);
        sender.join().unwrap();
        assert!(echoed.len() == 2_000_000 && !was_reset, "{world:?}: {}", echoed.len());
        // An upstream sees a plain request for any other protocol.
        for protocol in ["h2c", "websocket, h2c", "TLS/1.0"] {
            let reply = Client::connect(address).ask(&ask(protocol));
            assert_eq!(reply.body, b"no switch", "{world:?}: {protocol}");
        }
        // An upstream that switches unasked is refused.
        assert_eq!(Client::connect(address).ask(&get("/switch-all-the-same")).code, 502);
    }
}

#[test]
fn a_client_that_sends_too_slowly_is_given_up() {
    for world in WORLDS {
        let upstream = Upstream::start();
        let mut limits = patient();
        limits.client.body_time = SHORT;
        let address = relay_with(world, &[upstream.address], limits);
        let mut client = Client::connect(address);
        client.send("POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
        assert_eq!(client.receive(false).code, 408, "{world:?}");
        let mut limits = patient();
        limits.client.head_time = SHORT;
        let mut client = Client::connect(relay_with(world, &[upstream.address], limits));
        client.send("GET / HTTP/1.1\r\n");
        assert_eq!(client.receive(false).code, 408, "{world:?}");
    }
}

#[test]
fn a_client_that_leaves_does_no_harm() {
    for world in WORLDS {
        let upstream = Upstream::start();
        let address = relay(world, &upstream);
        for part in [
            "GET /zeros/100000000 HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc",
            "GET / HT",
        ] {
            let mut client = Client::connect(address);
            client.send(part);
            if part.contains("zeros") {
                client.stream.read_exact(&mut [0; 1000]).unwrap();
            }
            drop(client);
            assert_eq!(Client::connect(address).ask(&get("/")).body, b"hello", "{world:?}");
        }
    }
}
