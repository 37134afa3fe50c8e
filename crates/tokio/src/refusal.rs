//! Refuses a connection beyond the limits with the status 503 of HTTP/1.1.

use std::io;
use std::net::{Shutdown, TcpStream as StdStream};

use duality_runtime::net::TcpStream as OurStream;
use duality_runtime::time;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\
    Connection: close\r\nRetry-After: 1\r\n\r\n";

/// The time that a refusal may take.
const LIMIT: Duration = Duration::from_secs(2);

/// The most bytes that are read of a refused request.
const MOST_READ: usize = 1 << 20;

/// Refuses a connection, and reads until the client has gone. An earlier close would destroy the
/// refusal.
///
/// # Errors
///
/// Returns the errors of the connection.
pub(crate) async fn send(stream: StdStream) -> io::Result<()> {
    let mut stream = TcpStream::from_std(stream)?;
    let sent = timeout(LIMIT, async {
        stream.write_all(BUSY).await?;
        stream.shutdown().await?;
        let (mut buffer, mut read) = ([0; 1024], 0);
        while read < MOST_READ {
            match stream.read(&mut buffer).await? {
                0 => break,
                count => read += count,
            }
        }
        Ok(())
    });
    sent.await.unwrap_or(Ok(()))
}

/// Like [`send`], for a stream of our runtime.
///
/// # Errors
///
/// Returns the errors of the connection.
pub(crate) async fn send_on_ours(mut stream: OurStream) -> io::Result<()> {
    let sent = time::timeout(LIMIT, async {
        stream.write_all(BUSY).await?;
        stream.shutdown(Shutdown::Write).await?;
        let (mut buffer, mut read) = ([0; 1024], 0);
        while read < MOST_READ {
            match stream.read(&mut buffer).await? {
                0 => break,
                count => read += count,
            }
        }
        Ok(())
    });
    sent.await.unwrap_or(Ok(()))
}
