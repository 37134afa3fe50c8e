//! Back-pressure: what happens when descriptors, memory, threads or processes run out.
//!
//! The server reports once what it lacks, stops accepting, and goes on as soon as a connection has
//! ended. It refuses no connection and does not crash. Clients wait in the accept queue meanwhile.

use std::fmt;
use std::io;

use duality_runtime::handler::Connections;
use duality_runtime::time::{self, Duration, Instant};
use duality_runtime::{drain, log};

use super::admission::Admission;

/// The longest pause before another attempt. Even if no connection has ended, another process may
/// have released the resource.
pub const PAUSE: Duration = Duration::from_millis(100);

/// How long after a report further shortages are not reported.
const QUIET: Duration = Duration::from_secs(10);

/// Reports a shortage once, and waits until it is over.
pub struct Pressure {
    connections: Connections,
    reported: Option<Instant>,
}

impl fmt::Debug for Pressure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pressure").finish_non_exhaustive()
    }
}

impl Pressure {
    /// The pressure of a server with these connections.
    pub fn new(connections: &Connections) -> Self {
        Self { connections: connections.clone(), reported: None }
    }

    /// Reports that `what` failed with `error`, and waits until another attempt makes sense.
    pub async fn wait_out(&mut self, what: &str, error: &io::Error) {
        if self.is_lack(what, error) {
            self.connections.one_ended(PAUSE).await;
        }
    }

    /// Waits until a connection may be accepted beside those that are `held`, or the process
    /// drains.
    pub async fn admit(&mut self, admission: &Admission, held: impl Fn() -> usize) {
        while let Err(lack) = admission.check(held()) {
            if drain::requested() {
                return;
            }
            self.wait_out("accept", &lack).await;
        }
    }

    /// Whether `what` failed because a resource is lacking, so that a wait makes sense. Reports a
    /// lack.
    pub fn is_lack(&mut self, what: &str, error: &io::Error) -> bool {
        let lacking = !is_of_one_connection(error);
        if lacking {
            self.report(what, error);
        }
        lacking
    }

    /// Notes that an attempt has succeeded.
    pub fn relieved(&mut self) {
        if self.reported.is_some_and(|at| time::since(at) >= QUIET) {
            self.reported = None;
        }
    }

    fn report(&mut self, what: &str, error: &io::Error) {
        if self.reported.replace(time::now()).is_none() {
            let remedy = remedy(error);
            log::warn(format_args!(
                "{what}: {error}; accepting no more until a connection ends{remedy}"
            ));
        }
    }
}

/// Network errors that Linux's accept(2) passes on, and the error of a packet filter that refuses.
const OF_ONE_CONNECTION: [i32; 8] = [
    libc::EPROTO,
    libc::EPERM,
    libc::ENETDOWN,
    libc::ENETUNREACH,
    libc::ENONET,
    libc::ENOPROTOOPT,
    libc::EHOSTDOWN,
    libc::EHOSTUNREACH,
];

/// Whether accept(2) reports an error of the connection that it would have returned.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
        || error.raw_os_error().is_some_and(|number| OF_ONE_CONNECTION.contains(&number))
}

/// The remedy for a shortage, as the end of a line.
pub fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => " (raise the limit with `ulimit -n`)",
        Some(libc::ENFILE) => " (raise the limit with `sysctl fs.file-max`)",
        Some(libc::EAGAIN) => " (see `ulimit -u`, kernel.pid_max and the memory limits)",
        Some(libc::ENOMEM) => " (see `ulimit -v`, --address-space and vm.max_map_count)",
        _ => "",
    }
}
