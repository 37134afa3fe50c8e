//! TCP, with the names and shapes of `std::net`.

mod listener;
mod socket;
mod stream;

pub use listener::{ListenOptions, TcpListener};
pub use stream::TcpStream;
