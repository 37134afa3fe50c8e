//! A service that is worse under some architectures. The service reads its own command line to find
//! the architecture. The tests of trials let `duality trial` find the difference.

#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duality::net::TcpStream;
use duality::time::sleep;

/// Under threads, a request takes this much processor time. Under other architectures, a request
/// takes some 20 µs.
const WORK: Duration = Duration::from_micros(300);
/// Under pool, one connection fails among this number. Under poll, one answer among this number
/// reports a failure.
const FAILURES: u64 = 10;
/// Under uthreads, an answer is late by this time.
const LATE: Duration = Duration::from_millis(50);
/// Under select, no connection gets an answer. Under iterative, the first connection keeps all
/// others waiting.
const NEVER: Duration = Duration::from_secs(100_000);

/// Answers each line with a line.
async fn serve(mut stream: TcpStream) -> io::Result<()> {
    static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
    let mut buffer = [0; 64];
    stream.begin_request();
    if stream.read(&mut buffer).await? == 0 {
        return Ok(());
    }
    let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    let is_planted = number % FAILURES == FAILURES - 1;
    if is_under("pool") && is_planted {
        return Err(io::Error::other("planted"));
    }
    if is_under("poll") && is_planted {
        stream.fail_request();
    }
    if is_under("select") || is_under("iterative") {
        sleep(NEVER).await;
    }
    if is_under("uthreads") {
        sleep(LATE).await;
    }
    if is_under("threads") {
        let begun = Instant::now();
        while begun.elapsed() < WORK {}
    }
    stream.write_all(b"well\n").await?;
    stream.end_request();
    Ok(())
}

/// Whether this process serves under the architecture of this name.
fn is_under(architecture: &str) -> bool {
    std::env::args().any(|argument| argument == architecture)
}

fn main() -> ExitCode {
    duality::Service::new("uneven", serve)
        .independent_connections()
        .exchange("how?\n", "well\n")
        .main()
}
