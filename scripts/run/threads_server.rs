//! A web server of `std::thread`s for `scripts/run_servers.py`: channels, locks, a thread for each
//! connection.
//!
//!   rustc -O scripts/run/threads_server.rs && duality run -- ./threads_server 8080

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::Duration;

fn serve(stream: TcpStream, pages: &RwLock<HashMap<String, String>>, log: &Sender<usize>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    let mut writer = &stream;
    let mut reader = BufReader::with_capacity(1024, &stream);
    let mut line = String::new();
    loop {
        let mut path = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(rest) = line.strip_prefix("GET ") {
                path = rest.split(' ').next().unwrap_or("/").to_owned();
            }
            if line == "\r\n" {
                break;
            }
        }
        let body = pages.read().unwrap().get(&path).cloned();
        let body = body.unwrap_or_else(|| {
            let made = format!("<p>the page {path}</p>\n").repeat(12);
            pages.write().unwrap().insert(path, made.clone());
            made
        });
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        writer.write_all((head + &body).as_bytes())?;
        log.send(body.len()).unwrap();
    }
}

fn main() {
    let port: u16 = std::env::args().nth(1).expect("a port").parse().expect("a port");
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let pages = Arc::new(RwLock::new(HashMap::new()));
    let (log, lines) = mpsc::channel();
    thread::spawn(move || lines.iter().fold(0usize, |sum, length| sum.wrapping_add(length)));
    for stream in listener.incoming().flatten() {
        let (pages, log) = (Arc::clone(&pages), log.clone());
        let connection = thread::Builder::new().stack_size(64 << 10);
        let _thread = connection.spawn(move || serve(stream, &pages, &log)).expect("a thread");
    }
}
