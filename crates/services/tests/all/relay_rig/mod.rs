//! A relay for tests, in any world, and what its clients do.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::{
    io::{ErrorKind, Read},
    net::SocketAddr,
    time::Duration,
};

use duality_kit::Case;
use duality_services::{
    http,
    relay::{Config, Limits, Relay},
};

use crate::http_client::{Client, serve_connections_in};
use crate::relay_upstream::Upstream;

/// The worlds in which a relay runs: it is not written by hand.
pub(crate) const WORLDS: [Case; 4] = Case::EACH_WORLD;

/// A time limit that no test reaches on any machine.
pub(crate) const EVER: Duration = Duration::from_secs(600);

/// Short enough to wait for.
pub(crate) const SHORT: Duration = Duration::from_millis(200);

/// Long time limits. Each test shortens the limit that it tests.
pub(crate) fn patient() -> Limits {
    let client = http::Limits {
        head_time: EVER,
        body_time: EVER,
        idle_time: EVER,
        write_time: EVER,
        linger_time: EVER,
        ..http::Limits::default()
    };
    Limits { client, connect_time: EVER, reply_time: EVER, idle_time: EVER, ..Limits::default() }
}

pub(crate) fn relay_with(world: Case, upstreams: &[SocketAddr], limits: Limits) -> SocketAddr {
    serve(world, Config { upstreams: upstreams.to_vec(), limits, ..Config::default() })
}

pub(crate) fn serve(world: Case, config: Config) -> SocketAddr {
    let relay = Relay::new(config).unwrap();
    serve_connections_in(world, move |stream| relay.serve(stream))
}

pub(crate) fn relay(world: Case, upstream: &Upstream) -> SocketAddr {
    relay_with(world, &[upstream.address], patient())
}

/// Reads until the end. Returns the bytes, and whether a reset ended them.
pub(crate) fn read_all(client: &mut Client) -> (String, bool) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let was_reset = loop {
        match client.stream.read(&mut buffer) {
            Ok(0) => break false,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                break true;
            }
        }
    };
    (String::from_utf8_lossy(&bytes).into_owned(), was_reset)
}

/// Sends a request that asks to close, and reads all that comes.
pub(crate) fn exchange(address: SocketAddr, request: &str) -> (String, bool) {
    let mut client = Client::connect(address);
    client.send(request);
    read_all(&mut client)
}
