//! A service that is worse under some architectures, by what it sees of its own command line: what
//! the tests of trials have `duality trial` find.

#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duality::net::TcpStream;

/// Under threads, a request takes this much processor time. Elsewhere it takes some 20 µs.
const WORK: Duration = Duration::from_micros(300);
/// Under pool, one connection of so many fails. Under poll, one answer of so many tells of a
/// failure.
const FAILURES: u64 = 100;

/// A line comes, and a line goes.
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
    if is_under("threads") {
        let begun = Instant::now();
        while begun.elapsed() < WORK {}
    }
    stream.write_all(b"well\n").await?;
    stream.end_request();
    Ok(())
}

/// Whether this process serves under that architecture.
fn is_under(architecture: &str) -> bool {
    std::env::args().any(|argument| argument == architecture)
}

fn main() -> ExitCode {
    duality::Service::new("uneven", serve)
        .independent_connections()
        .exchange("how?\n", "well\n")
        .main()
}
