//! Shared by the services made of lines: how long they wait for a client, and how they end a
//! connection.

use std::{io, net::Shutdown, time::Duration};

use duality_runtime::{net::TcpStream, time::timeout};

/// How long a client may take none of the sent bytes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The message to a client that cannot be served, because its connection lacks a descriptor, thread
/// or stack.
pub(crate) const FULL: &[u8] = b"* the server is full\n";

/// The message to a client when the server cannot reach the other servers.
pub(crate) const UNAVAILABLE: &[u8] = b"* the store is unavailable\n";

/// How long the server reads on after its last line, if the client is still sending.
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Makes the connection end if the client takes none of the sent bytes for `limit`.
pub(crate) fn bound_patience(stream: &mut TcpStream, limit: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(limit))?;
    stream.set_taking_limit(limit)
}

/// Ends a connection after the server's last line, while the client may still be sending.
///
/// If a socket with unread bytes is closed, the kernel sends a reset. The reset can destroy the
/// last line before the client has read it. So only our side closes. Later bytes are read and
/// dropped, for a bounded time.
pub(crate) async fn linger(stream: &mut TcpStream) {
    let mut dropped = [0; 1 << 10];
    let drain = async {
        if stream.shutdown(Shutdown::Write).await.is_err() {
            return;
        }
        // The last line is out. Later errors do not matter.
        while stream.read(&mut dropped).await.is_ok_and(|count| count > 0) {}
    };
    let _ = timeout(LINGER_TIME, drain).await;
}
