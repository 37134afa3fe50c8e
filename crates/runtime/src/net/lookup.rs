//! Host names.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use super::TcpStream;
use super::simulated;
use crate::task::offload;

/// The addresses of a host, such as `"db.example:5432"` or `"[::1]:80"`, in the order of
/// preference (getaddrinfo(3), RFC 6724).
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::net::lookup_host;
///
/// # fn main() -> std::io::Result<()> {
/// let addresses = block_on(lookup_host("127.0.0.1:80"))?;
/// assert_eq!(addresses, [([127, 0, 0, 1], 80).into()]);
/// # Ok(())
/// # }
/// ```
///
/// The C library's resolver blocks. So a helper thread asks it, unless this kernel thread may
/// block. Under a [`timeout`](crate::time::timeout), a helper thread asks in any case. The time
/// limit then ends the wait, and the helper's call goes on alone.
///
/// # Errors
///
/// `InvalidInput` where `host` has no port. The resolver's errors: the host is unknown, or no name
/// server answers.
pub async fn lookup_host(host: impl Into<String>) -> io::Result<Vec<SocketAddr>> {
    let host = host.into();
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    if let Some(machine) = simulated::machine() {
        return machine.look_up(&host);
    }
    offload(move || host.to_socket_addrs()).await.map(Iterator::collect)
}

impl TcpStream {
    /// Opens a connection to a host, such as `"db.example:5432"`. It tries the host's addresses
    /// one after the other, in the order of [`lookup_host`]. `TCP_NODELAY` is set.
    ///
    /// # Errors
    ///
    /// The errors of [`lookup_host`]. Those of [`connect`](TcpStream::connect), for the last
    /// address, if none answers.
    pub async fn connect_host(host: impl Into<String>) -> io::Result<Self> {
        let mut refused = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in lookup_host(host).await? {
            match Self::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}
