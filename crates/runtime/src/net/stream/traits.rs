//! The traits of other libraries for a connection, each made of the poll-style methods.

#[cfg(feature = "futures-io")]
mod futures_io;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "tokio-io")]
mod tokio_io;
