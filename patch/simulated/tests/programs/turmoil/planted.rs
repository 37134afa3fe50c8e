//! Programs with a fault each, and what must hold. scripts/beside_turmoil.py also compiles them for
//! turmoil, with its sockets under the name `net`.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

use super::net::{TcpListener, TcpStream};

const SECOND: Duration = Duration::from_secs(1);

/// Takes what one read brings for a whole line.
pub async fn one_read_is_one_line() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        tokio::spawn(async move {
            let mut line = [0; 64];
            while let Ok(count @ 1..) = stream.read(&mut line).await {
                let line = String::from_utf8_lossy(&line[..count]);
                let reply = format!("{}!\n", line.trim_end());
                if stream.write_all(reply.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Stores in a task of its own, and acknowledges at once.
pub async fn acknowledged_before_it_is_stored() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    let stored = Arc::new(Mutex::new(b'0'));
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let stored = stored.clone();
        tokio::spawn(async move {
            while let Ok(value) = stream.read_u8().await {
                let (keep, kept) = (stored.clone(), *stored.lock().unwrap());
                if value != b'?' {
                    tokio::spawn(async move { *keep.lock().unwrap() = value });
                }
                let reply = if value == b'?' { kept } else { b'+' };
                if stream.write_u8(reply).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Ends at the first error of accept.
pub async fn an_error_of_accept_ends_it() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            while let Ok(value) = stream.read_u8().await {
                if stream.write_u8(value).await.is_err() {
                    return;
                }
            }
        });
    }
    pending().await
}

/// Adds one for each request, so a request that is sent again counts twice.
pub async fn a_retry_counts_twice(count: Arc<AtomicU64>) -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let count = count.clone();
        tokio::spawn(async move {
            while stream.read_u8().await.is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
                if stream.write_u8(b'+').await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn ask(request: &[u8], expected: &[u8]) -> io::Result<Vec<u8>> {
    let asked = timeout(10 * SECOND, async {
        let mut stream = TcpStream::connect("server:80").await?;
        stream.write_all(request).await?;
        let mut reply = vec![0; expected.len()];
        stream.read_exact(&mut reply).await?;
        Ok(reply)
    });
    asked.await.map_err(io::Error::other)?
}

/// Lines come back as a whole. A connection that breaks is no fault of the server's.
pub async fn lines() -> Result<(), String> {
    for _ in 0..20 {
        sleep(SECOND).await;
        if let Ok(reply) = ask(b"hello\n", b"hello!\n").await
            && reply != b"hello!\n"
        {
            return Err(format!("{reply:?}"));
        }
    }
    Ok(())
}

/// What was acknowledged is there.
pub async fn values() -> Result<(), String> {
    for value in b'a'..=b'z' {
        sleep(SECOND).await;
        let asked = timeout(10 * SECOND, async {
            let mut stream = TcpStream::connect("server:80").await?;
            stream.write_u8(value).await?;
            stream.read_u8().await?;
            stream.write_u8(b'?').await?;
            stream.read_u8().await
        });
        if let Ok(Ok(found)) = asked.await
            && found != value
        {
            return Err(format!("{found} instead of {value}"));
        }
    }
    Ok(())
}

/// Some request is answered in the end.
pub async fn served() -> Result<(), String> {
    for _ in 0..300 {
        sleep(SECOND).await;
        let _ = ask(b"x", b"x").await;
    }
    for _ in 0..60 {
        if ask(b"x", b"x").await.is_ok() {
            return Ok(());
        }
        sleep(SECOND).await;
    }
    Err("no request is answered any more".into())
}

/// Each request is counted once, however often it was sent.
pub async fn counted(count: Arc<AtomicU64>) -> Result<(), String> {
    for number in 1..=20 {
        sleep(SECOND).await;
        while ask(b"x", b"+").await.is_err() {
            sleep(SECOND).await;
        }
        let found = count.load(Ordering::Relaxed);
        if found > number {
            return Err(format!("{found} instead of {number}"));
        }
    }
    Ok(())
}
