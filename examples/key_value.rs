//! A key-value store: all connections share the keys.
//!
//! ```text
//! SET colour dark green      OK
//! GET colour                 VALUE dark green
//! GET taste                  NONE
//! anything else              ERROR write SET KEY VALUE, or GET KEY
//! ```
//!
//! The connections share a map in memory; with a process for each connection, each process would
//! have its own map. Duality assumes that a service shares memory unless it says
//! `.independent_connections()`. So it refuses fork and prefork here:
//!
//! ```sh
//! cargo run --release --example key_value -- serve --architecture threads --listen :7000
//! cargo run --release --example key_value -- compare --concurrency 10,100
//! ```

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use duality::net::TcpStream;
use duality::task;

type Map = Arc<Mutex<HashMap<String, String>>>;

/// The longest line, its end included.
const LONGEST: usize = 4096;

async fn serve(mut stream: TcpStream, map: Map) -> io::Result<()> {
    let mut input = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        // `kill -USR1` and a logged error show this name.
        task::stage("key-value: request").await;
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..count]);
        let mut replies = String::new();
        while let Some(end) = input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            replies += &reply(String::from_utf8_lossy(&line).trim_end(), &map);
            replies.push('\n');
        }
        if input.len() >= LONGEST {
            return Err(io::Error::other(format!("a line of more than {LONGEST} bytes")));
        }
        stream.write_all(replies.as_bytes()).await?;
    }
}

/// The lock is held for a look-up, and never while a connection waits.
fn reply(line: &str, map: &Map) -> String {
    let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
    match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
        ["SET", key, value] => {
            map.insert(key.to_owned(), value.to_owned());
            "OK".to_owned()
        }
        ["GET", key] => map.get(key).map_or("NONE".to_owned(), |value| format!("VALUE {value}")),
        _ => "ERROR write SET KEY VALUE, or GET KEY".to_owned(),
    }
}

fn main() -> std::process::ExitCode {
    let map = Map::default();
    duality::Service::new("key-value", move |stream| serve(stream, map.clone()))
        .exchange("SET colour green\n", "OK\n")
        .main()
}
