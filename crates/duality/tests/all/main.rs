//! The tests of the library and of the command. They are one program: to link one for each file
//! takes longer than to run them.

mod attributes;
#[cfg(feature = "tool")]
mod capacity;
#[cfg(feature = "tool")]
mod derived;
#[cfg(feature = "tool")]
mod guide;
#[cfg(feature = "tool")]
mod hostile;
#[cfg(feature = "tool")]
#[path = "../../../runtime/tests/all/kept_port/mod.rs"]
mod kept_port;
#[cfg(feature = "tool")]
mod kept_runs;
mod libraries;
mod library;
#[cfg(feature = "tool")]
mod live;
#[cfg(feature = "tool")]
mod logs;
#[cfg(feature = "tool")]
mod report;
#[cfg(feature = "tool")]
mod schema;
#[cfg(feature = "tool")]
mod schemas;
#[cfg(feature = "tool")]
mod schemas_told;
#[cfg(feature = "rustls")]
mod secure_streams;
#[cfg(feature = "tool")]
mod simulate;
#[cfg(all(feature = "tool", feature = "rustls"))]
mod tls;
#[cfg(feature = "rustls")]
mod tls_client;
#[cfg(feature = "tool")]
mod trace;
