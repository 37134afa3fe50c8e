//! A service that echoes. On request it panics, or recurses without an end.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use duality::net::TcpStream;

/// Overflows the stack of its caller.
fn recurse(depth: u64) -> u64 {
    if std::hint::black_box(depth) == u64::MAX { 0 } else { recurse(depth + 1) + 1 }
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 64];
    loop {
        let count = stream.read(&mut buffer).await?;
        assert!(!buffer[..count].starts_with(b"panic"), "told to panic");
        if buffer[..count].starts_with(b"recurse") {
            recurse(0);
        }
        if buffer[..count].starts_with(b"helper") {
            duality::task::offload(|| recurse(0)).await;
        }
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count]).await?;
    }
}

fn main() -> ExitCode {
    duality::Service::new("panicky", serve).independent_connections().exchange("a", "a").main()
}
