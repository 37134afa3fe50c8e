//! A service that holds up its loop: for each line, it computes until the file of that name exists,
//! and then answers.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use duality::net::TcpStream;
use duality::task;

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        task::stage("listen").await;
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&buffer[..count]);
        task::stage("spin").await;
        spin(Path::new(name.trim_end()));
        stream.write_all(b"done\n").await?;
    }
}

#[inline(never)]
fn spin(until: &Path) {
    while !until.exists() {
        std::hint::spin_loop();
    }
}

fn main() -> ExitCode {
    duality::Service::new("spinning", serve)
        .independent_connections()
        .exchange("/\n", "done\n")
        .main()
}
