//! Tests that a client that does not take its reply is reported on standard error. There is one
//! test, because standard error belongs to the process.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use duality_architectures::common::admission::Admission;
use duality_architectures::common::wait_queue::Limit;
use duality_runtime::drain;
use duality_runtime::net::{ListenOptions, TcpListener};
use duality_services::http::{Config, Http, Limits};

#[test]
fn a_reply_that_is_not_taken_is_told_of() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    File::create(root.join("zeros")).unwrap().set_len(1 << 30).unwrap();
    let limits = Limits { write_time: Duration::from_millis(150), ..Limits::default() };
    let http = Http::new(Config { root: Some(root), limits }).unwrap();
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let (said, errors) = UnixStream::pair().unwrap();
    said.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    rustix::stdio::dup2_stderr(errors).unwrap();
    let program = duality_handwritten::http(http);
    let server = thread::spawn(move || {
        let run = program(Limit::none()).unwrap();
        run(listener, Admission::unlimited());
    });

    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET /zeros HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line).unwrap();
    let peer = client.local_addr().unwrap();
    let expected = format!("duality: the connection from {peer} ended with an error: timed out\n");
    assert_eq!(line, expected);
    drain::request();
    server.join().unwrap();
}
