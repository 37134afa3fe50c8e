//! The reason why a server, or its store, is missing.

/// The reason, and the outcome of the cell.
#[derive(Debug)]
pub(crate) enum NoServer {
    Unavailable(String),
    Failed(String),
}
