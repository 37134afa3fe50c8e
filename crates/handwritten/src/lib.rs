//! Echo and http as state machines written by hand, to price the compiler's state machines.
//!
//! ```text
//!                 ┌────────────────────── one round ──────────────────────┐
//!                 ▼                                                       │
//!   accept ──▶ machines cut short ──▶ epoll_wait ──▶ events ──▶ timers ───┘
//!     │                                                │           │
//!     └─ Ready ─▶ ┌─────────┐ ◀──── Ready ─────────────┘           │
//!                 │ machine │ ◀──── TimedOut ──────────────────────┘
//!                 └─────────┘ ◀──── Found ── a helper thread's answer
//!                      └─▶ Read, Write, Helper, End or Failed: what it waits for next
//! ```
//!
//! A service of `crates/services` is an `async fn`. Under the architecture `epoll` the compiler
//! turns it into a state machine that the runtime polls. This crate does not use that conversion. A
//! `StateMachine` is a struct with the data that outlive a wait, and a callback that continues
//! after the wait. Parsers, pages, replies, buffer sizes, limits and socket options are those of
//! the services. The poller and the timers are those of `epoll`. Two things differ: the state
//! machine is written by hand, and the loop calls the machine directly, without a task.
//!
//! The architecture `handwritten` runs [`echo`] and [`http`], and no other service. Two are enough
//! to know the price. The code of the service http shows the order of events from top to bottom.
//! Here, the order is spread over the stages of `http.rs`.

#![forbid(unsafe_code)]

mod attempts;
mod callback_loop;
mod echo;
mod http;
mod output;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use duality_architectures::common::wait_queue::Limit;
use duality_architectures::{ByHand, OpenedByHand};
use duality_services::{self as services, Setup, SetupError, http::Http};

use attempts::Attempts;
use callback_loop::CallbackLoop;

/// Sets up a state machine.
pub type Open = fn(&Setup) -> Result<ByHand, SetupError>;

/// Every service that is also written by hand, by name, with the function that sets up its machine.
pub const ALL: &[(&str, Open)] = &[
    (services::echo::ENTRY.name, |_| Ok(echo())),
    (services::http::ENTRY.name, |setup| Ok(http(Http::set_up(setup)?))),
];

/// The function that sets up the state machine of `service`, if there is one.
#[must_use]
pub fn find(service: &str) -> Option<Open> {
    ALL.iter().find(|(name, _)| *name == service).map(|(_, open)| *open)
}

/// The echo service.
#[must_use]
pub fn echo() -> ByHand {
    by_hand::<echo::Echo>(|| Box::new([0; echo::BUFFER]))
}

/// The http service, set up like the service `http`.
#[must_use]
pub fn http(http: Http) -> ByHand {
    by_hand::<http::Conversation>(move || http::Common::new(http.clone()))
}

fn by_hand<M: StateMachine>(common: impl Fn() -> M::Common + Send + Sync + 'static) -> ByHand {
    Arc::new(move |limit: Limit| {
        let callback_loop = CallbackLoop::<M>::open(common(), limit)?;
        Ok(Box::new(move |listener, admission| callback_loop.run(listener, admission))
            as OpenedByHand)
    })
}

/// One connection, as a state machine.
trait StateMachine: Sized + 'static {
    /// State that the machines of one loop share.
    type Common: 'static;
    /// The result of a helper thread for a machine.
    type Found: Send + 'static;

    /// A machine for an accepted connection.
    fn accepted(common: &Self::Common) -> Self;

    /// A machine that refuses a connection. `None` closes the connection without a message.
    fn refused(common: &Self::Common) -> Option<Self>;

    /// The callback: works until the machine must wait. The first call has [`Why::Ready`].
    fn wake(
        &mut self,
        why: Why<Self::Found>,
        attempts: &mut Attempts<'_>,
        common: &mut Self::Common,
    ) -> Next<Self::Found>;
}

/// Why a machine is called.
enum Why<F> {
    /// The wait may be over, or the call is spurious.
    Ready,
    /// The deadline of its wait has passed.
    TimedOut,
    /// The result of its helper thread.
    Found(F),
}

/// What a machine waits for next.
enum Next<F> {
    /// Bytes from its client, until a deadline.
    Read(Option<Instant>),
    /// Room for bytes to its client, until a deadline.
    Write(Option<Instant>),
    /// A helper thread that runs this function.
    Helper(Box<dyn FnOnce() -> F + Send>),
    /// Nothing: the connection closes.
    End,
    /// Nothing: the connection closes, and the operator learns the reason.
    Failed(io::Error),
}

impl<F> From<io::Error> for Next<F> {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}
