//! Why a server, or the store that it needs, is not there.

/// Why there is none, and how that is told of its cell.
#[derive(Debug)]
pub(crate) enum NoServer {
    Unavailable(String),
    Failed(String),
}
