//! TCP, with the names and shapes of `std::net`.

mod group;
mod inherited;
mod injection;
mod input;
mod listener;
mod options;
mod output;
mod socket;
mod stream;
#[cfg(feature = "rustls")]
pub mod tls;

#[doc(hidden)]
pub use group::{Choice, ListenerGroup};
#[doc(hidden)]
pub use inherited::{inherited_listeners, number_of_listen_fds};
pub use injection::{Injector, Tally};
pub use input::Input;
pub(crate) use listener::internet_address;
pub use listener::{Backlog, ListenOptions, TcpListener};
pub use options::ConnectOptions;
pub use output::Output;
pub use stream::TcpStream;
