//! Signals by their numbers.

use std::ffi::c_int;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use duality_poller::Direction;
use duality_runtime::net::SimulatedSockets;
use rustix::event::{EventfdFlags, eventfd};

use super::handler::Handler;

use crate::watched::Watched;

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(c_int);

macro_rules! kinds {
    ($($name:ident = $number:ident, $about:literal;)+) => {
        impl SignalKind {$(
            #[doc = $about]
            #[must_use]
            pub const fn $name() -> Self {
                Self(libc::$number)
            }
        )+}
    };
}

kinds! {
    alarm = SIGALRM, "SIGALRM: a timer has expired.";
    child = SIGCHLD, "SIGCHLD: the state of a child has changed.";
    hangup = SIGHUP, "SIGHUP: the terminal is gone.";
    interrupt = SIGINT, "SIGINT: Ctrl-C.";
    io = SIGIO, "SIGIO: I/O is possible.";
    pipe = SIGPIPE, "SIGPIPE: a pipe without a reader was written.";
    quit = SIGQUIT, "SIGQUIT: Ctrl-\\\\.";
    terminate = SIGTERM, "SIGTERM: the process is to end.";
    user_defined1 = SIGUSR1, "SIGUSR1.";
    user_defined2 = SIGUSR2, "SIGUSR2.";
    window_change = SIGWINCH, "SIGWINCH: the size of the terminal has changed.";
}

impl SignalKind {
    /// The signal with a number.
    #[must_use]
    pub const fn from_raw(number: c_int) -> Self {
        Self(number)
    }

    /// The number of the signal.
    #[must_use]
    pub const fn as_raw_value(&self) -> c_int {
        self.0
    }
}

impl From<c_int> for SignalKind {
    fn from(number: c_int) -> Self {
        Self(number)
    }
}

impl From<SignalKind> for c_int {
    fn from(kind: SignalKind) -> Self {
        kind.0
    }
}

/// Receives a signal.
#[derive(Debug)]
#[must_use = "a signal that is not received is lost"]
pub struct Signal {
    event: Watched,
    /// `None` on a simulated host, which gets no signal but a drain.
    _handler: Option<Handler>,
    /// The drain of a simulated host, if it stands for this signal and has not come yet.
    drain: Option<Drain>,
}

/// A wait for the drain of a host.
struct Drain(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl fmt::Debug for Drain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Drain")
    }
}

/// Begins to receive a signal. From now on the signal has its default effect no longer.
///
/// # Errors
///
/// If the signal cannot be received, or no descriptor is left.
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let is_simulated = SimulatedSockets::here().is_some();
    let handler = match is_simulated {
        true => None,
        false => Some(Handler::new(kind.0, event.try_clone()?)?),
    };
    let ends = [SignalKind::interrupt(), SignalKind::terminate()].contains(&kind);
    let drain = (is_simulated && ends).then(|| Drain(Box::pin(duality_runtime::drained())));
    Ok(Signal { event: Watched::of_nonblocking(event), _handler: handler, drain })
}

impl Signal {
    /// Waits for the signal. Signals that came in quick succession count once.
    pub async fn recv(&mut self) -> Option<()> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Like [`recv`](Self::recv), for a future of one's own. It is never ready with `None`.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<()>> {
        if let Some(drain) = &mut self.drain {
            ready!(drain.0.as_mut().poll(context));
            self.drain = None;
            return Poll::Ready(Some(()));
        }
        let read = |event: std::os::fd::BorrowedFd<'_>| {
            Ok(rustix::io::read(event.as_fd(), &mut [0; 8]).map(drop)?)
        };
        match self.event.poll(context, Direction::Read, read) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(_) => Poll::Ready(Some(())),
        }
    }
}
