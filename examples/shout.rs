//! A service of your own: sends back what it gets, in capitals.
//!
//! ```sh
//! cargo run --release --example shout -- serve --architecture uthreads --listen 127.0.0.1:7000
//! cargo run --release --example shout -- compare --concurrency 10,100
//! ```

use duality::net::TcpStream;

async fn shout(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        buffer[..count].make_ascii_uppercase();
        stream.write_all(&buffer[..count]).await?;
    }
}

fn main() -> std::process::ExitCode {
    duality::Service::new("shout", shout)
        .independent_connections()
        .exchange("hello", "HELLO")
        .main()
}
