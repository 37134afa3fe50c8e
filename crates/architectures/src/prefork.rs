//! `prefork`: N processes, made at the start, accept from one socket.
//!
//! ```text
//!                   ┌─▶ [ child 1: accept ─ serve ─ close ─┐ ]
//!   accept queue ▶▶─┼─▶ [ child 2:   ▲─────────────────────┘ ]
//!                   └─▶ [ child N … ]
//!   [ parent: replaces children that die ]
//! ```
//!
//! What waits: each child, in accept or for its client. For a new connection, the kernel wakes one
//! child in accept. Cost of a connection: nothing but its descriptor; the processes are there. What
//! breaks first: the number of workers, which is the number of connections served at a time. No
//! memory is shared. Source: ZeroHTTPd, `03_preforking`; Apache's prefork in Kerneis & Chroboczek
//! 2009.

use std::fmt;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use duality_runtime::handler::Connections;
use duality_runtime::net::TcpListener;
use duality_runtime::visibility::totals;
use duality_runtime::{block_on, drain, log, task};
use rustix::process::WaitStatus;

use crate::common::accept::{Members, accept_and_serve};
use crate::common::children::{Children, Ended, ROUND};
use crate::common::pressure::Pressure;
use crate::{Architecture, Footprint, Needs, Options, Served, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Prefork;

impl Architecture for Prefork {
    fn name(&self) -> &'static str {
        "prefork"
    }

    fn summary(&self) -> &'static str {
        "N processes made at the start, each accepting (--workers)"
    }

    fn source(&self) -> &'static str {
        "ZeroHTTPd, Kerneis & Chroboczek"
    }

    fn gives(&self) -> Needs {
        Needs { straight_line: true, shared_memory: false, concurrent_connections: true }
    }

    fn world(&self) -> Option<World> {
        Some(World::Block)
    }

    fn forks(&self) -> bool {
        true
    }

    fn places(&self, options: &Options) -> Option<usize> {
        Some(options.workers)
    }

    fn footprint(&self, options: &Options) -> Footprint {
        Footprint::of_workers(options.workers)
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        // Each process serves one connection at a time.
        let workers = server.options.workers.min(server.options.max_connections);
        let (service, limit) = (server.service.clone(), server.limit());
        let listener = server.into_listener();
        // Each child has a copy of this.
        let members = Members::new(&listener, 1, limit)?;
        let mut listener = Some(listener);
        let mut children = Children::new()?;
        let connections = Connections::default();
        let mut pressure = Pressure::new(&connections);
        let mut losses = Losses::new(workers);
        while !drain::requested() {
            while let Some(ended) = children.reap() {
                losses.count(&ended)?;
            }
            while children.count() < workers && losses.are_over() && !drain::requested() {
                let started = children.start(|| {
                    let listener = listener.take().expect("taken in children only");
                    accept_and_serve(listener, &service, &members, None);
                });
                match started {
                    Ok(()) => pressure.relieved(),
                    Err(error) if children.count() == 0 => return Err(error),
                    Err(error) => block_on(pressure.wait_out("fork", &error)),
                }
            }
            thread::sleep(ROUND);
        }
        children.drain();
        serve_the_rest(listener, &service, &mut children, &mut pressure);
        children.wait();
        Ok(())
    }
}

/// Starts a child for each connection that came before the drain and that no worker has accepted.
fn serve_the_rest(
    mut listener: Option<TcpListener>,
    service: &Served,
    children: &mut Children,
    pressure: &mut Pressure,
) {
    block_on(async {
        while let Some(accepting) = &mut listener {
            let mut stream = match accepting.accept_until_drain().await {
                Ok(Some(stream)) => Some(stream),
                Ok(None) => return,
                Err(error) => {
                    pressure.wait_out("accept", &error).await;
                    continue;
                }
            };
            while stream.is_some() {
                children.reap_all();
                let started = children.give(&mut stream, |stream| {
                    drop(listener.take());
                    let active = Connections::default().enter();
                    task::contain(|| block_on(service.begin(stream, active)));
                });
                if let Err(error) = started {
                    pressure.wait_out("fork", &error).await;
                }
            }
        }
    });
}

/// Children that end by themselves. If several in a row end soon after their start, they are
/// replaced more and more slowly, and in the end no longer. The cause would most likely end the
/// next one too.
struct Losses {
    workers: usize,
    /// Young children that ended in a row, without a connection accepted in between.
    young: usize,
    /// How many connections had been accepted when the last of them ended.
    accepted: u64,
    /// When the next child may be started.
    until: Option<Instant>,
    said: Option<Instant>,
}

impl Losses {
    /// A child that ends before this age is young.
    const YOUNG: Duration = Duration::from_secs(1);
    /// The longest pause. Each pause is twice the last one.
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);
    /// The most young children in a row, beyond the number of workers. The pauses take six seconds
    /// in all.
    const TOO_MANY: usize = 12;
    /// How long a report of a loss covers further losses.
    const QUIET: Duration = Duration::from_secs(10);

    fn new(workers: usize) -> Self {
        Self { workers, young: 0, accepted: 0, until: None, said: None }
    }

    /// Counts a child that has ended.
    ///
    /// # Errors
    ///
    /// If there were too many.
    fn count(&mut self, ended: &Ended) -> io::Result<()> {
        let accepted = totals().connections_accepted;
        if ended.age >= Self::YOUNG || accepted != self.accepted {
            self.young = 0;
        }
        (self.accepted, self.young) = (accepted, self.young + 1);
        let how = How(ended.status);
        // A single cause may have ended all workers at once.
        let Some(pauses) = self.young.checked_sub(self.workers + 1) else {
            if !self.quiet() {
                log::warn(format_args!("prefork: a worker process {how}; another takes its place"));
            }
            return Ok(());
        };
        if pauses >= Self::TOO_MANY {
            return Err(io::Error::other(format!(
                "{} worker processes in a row ended within {} s of their start, before they accepted a \
                 connection: the last one {how}",
                self.young,
                Self::YOUNG.as_secs()
            )));
        }
        let pause = Duration::from_millis(10 << pauses.min(10)).min(Self::LONGEST_PAUSE);
        self.until = Some(Instant::now() + pause);
        if pauses == 0 || !self.quiet() {
            log::warn(format_args!(
                "prefork: worker processes end soon after their start: the last one {how}; \
                 starting others more slowly"
            ));
        }
        Ok(())
    }

    /// Whether another child may be started.
    fn are_over(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() >= until)
    }

    /// Whether a recent report covers this loss.
    fn quiet(&mut self) -> bool {
        let quiet = self.said.is_some_and(|said| said.elapsed() < Self::QUIET);
        if !quiet {
            self.said = Some(Instant::now());
        }
        quiet
    }
}

/// How a child ended, in words.
struct How(WaitStatus);

impl fmt::Display for How {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.terminating_signal(), self.0.exit_status()) {
            (Some(signal), _) => write!(formatter, "was killed by signal {signal}"),
            (None, Some(status)) => write!(formatter, "exited with {status}"),
            (None, None) => formatter.write_str("ended"),
        }
    }
}
