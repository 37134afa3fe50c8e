//! What the services that people can speak with `nc` share: how long they wait for a client, and
//! how they part with it.

use std::{io, net::Shutdown, time::Duration};

use duality_runtime::{net::TcpStream, time::timeout};

/// The time for which a client may take none of the bytes on their way to it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The message to a client that cannot be served, because its connection lacks a descriptor, thread
/// or stack.
pub(crate) const FULL: &[u8] = b"* the server is full\n";

/// The message to a client when the server cannot reach the other servers.
pub(crate) const UNAVAILABLE: &[u8] = b"* the store is unavailable\n";

/// The time to read on, after the last line, from a client that is still sending.
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Parts with a client that takes none of the bytes on their way to it for as long as `limit`.
pub(crate) fn bound_patience(stream: &mut TcpStream, limit: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(limit))?;
    stream.set_taking_limit(limit)
}

/// Ends a connection with a client that has got its last word, and may still be sending.
///
/// To close a socket that has unread bytes makes the kernel send a reset. The reset can destroy the
/// last word before the client has read it. So only our side is closed. Later bytes are read and
/// dropped, for a bounded time.
pub(crate) async fn linger(stream: &mut TcpStream) {
    let mut dropped = [0; 1 << 10];
    let drain = async {
        if stream.shutdown(Shutdown::Write).await.is_err() {
            return;
        }
        // The last word is out; later errors no longer matter.
        while stream.read(&mut dropped).await.is_ok_and(|count| count > 0) {}
    };
    let _ = timeout(LINGER_TIME, drain).await;
}
