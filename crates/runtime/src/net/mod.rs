//! TCP, with the names and shapes of `std::net`.

mod listener;
mod options;
mod socket;
mod stream;

pub use listener::{ListenOptions, TcpListener};
pub use options::ConnectOptions;
pub use stream::TcpStream;
