//! Why a server, or its store, is missing.

/// Why there is none, and how that is told of its cell.
#[derive(Debug)]
pub(crate) enum NoServer {
    Unavailable(String),
    Failed(String),
}
