//! The place where a server listens: an internet address, or a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use duality_trace::Mistake;

/// The most bytes of a Unix socket's path (unix(7)).
pub(crate) const LONGEST_PATH: usize = 107;

/// The place where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Internet(SocketAddr),
    /// The path of a socket, with 1 to [`LONGEST_PATH`] bytes.
    Unix(Arc<Path>),
}

impl Place {
    /// The Unix socket with this path.
    ///
    /// # Errors
    ///
    /// The error: no socket can have this path.
    pub(crate) fn unix(path: &Path) -> Result<Self, Mistake> {
        let length = path.as_os_str().len();
        if length == 0 {
            return Err("the path of the Unix socket is missing".into());
        }
        if length > LONGEST_PATH {
            return Err(format!(
                "the path of a Unix socket has at most {LONGEST_PATH} bytes, and this has {length}: \
                 use a shorter one, such as a symbolic link in /tmp"
            ).into());
        }
        Ok(Self::Unix(path.into()))
    }

    /// The internet address, if the place has one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Internet(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Whether connections to it may have many source addresses. IPv6 has only one for the loopback
    /// device.
    pub(crate) fn has_many_sources(&self) -> bool {
        self.address().is_some_and(|address| address.is_ipv4() && address.ip().is_loopback())
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self::Internet(address)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet(address) => write!(formatter, "{address}"),
            Self::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}
