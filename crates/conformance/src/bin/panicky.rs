//! A service that echoes, and panics when it is told to.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use duality::net::TcpStream;

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 64];
    loop {
        let count = stream.read(&mut buffer).await?;
        assert!(!buffer[..count].starts_with(b"panic"), "told to panic");
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count]).await?;
    }
}

fn main() -> ExitCode {
    duality::Service::new("panicky", serve).exchange("a", "a").main()
}
