//! TCP, UDP and Unix sockets, with the names and shapes of `std::net`.

mod group;
mod inherited;
mod injection;
mod input;
mod lines;
mod listener;
mod lookup;
mod options;
mod output;
mod packets;
mod shared;
mod simulated;
mod socket;
mod stream;
#[cfg(feature = "rustls")]
pub mod tls;
mod udp;
pub mod unix;

#[doc(hidden)]
pub use group::{Choice, ListenerGroup};
#[doc(hidden)]
pub use inherited::{inherited_listeners, number_of_listen_fds};
pub use injection::{Injector, Tally};
pub use input::Input;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use lines::given_out;
pub use lines::{Line, Lines};
pub use listener::{Backlog, ListenOptions, TcpListener};
pub use lookup::lookup_host;
pub use options::ConnectOptions;
pub use output::Output;
#[doc(hidden)]
pub use packets::{dropped_packets, no_more_packets, only_port};
pub use shared::SharedDescriptor;
#[doc(hidden)]
pub use simulated::SimulatedSockets;
pub(crate) use socket::internet_address;
pub use stream::{Closed, ReadHalf, TcpStream, WriteHalf};
pub use udp::UdpSocket;

pub use crate::tcp_info::accept_queue_length;
