//! The tests of applications on tokio beside our architectures. They are one program: to link one
//! for each file takes longer than to run them.

mod comparing;
#[cfg(feature = "rustls")]
mod http2;
mod members;
#[cfg(feature = "rustls")]
mod peer;
mod traits;
