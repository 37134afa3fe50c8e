//! A service in a program with another thread, as a user's program may have.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::thread;

use duality::net::TcpStream;

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 64];
    let count = stream.read(&mut buffer).await?;
    stream.write_all(&buffer[..count]).await
}

fn main() -> ExitCode {
    thread::spawn(|| {
        loop {
            thread::park();
        }
    });
    duality::Service::new("threaded", serve).independent_connections().exchange("a", "a").main()
}
