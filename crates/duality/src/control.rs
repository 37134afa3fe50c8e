//! The server's end of the lab's control channel: lines of JSON over a socket on standard input. If
//! standard input is a pipe, as with launchers, answers go to standard output.
//!
//! Each line has a direction:
//!
//! ```text
//!   to the lab     {"ready":{"address":…,"pid":…}}    it listens
//!   to the lab     {"unavailable":"…"}                it cannot carry the service: the reason
//!   to the server  counters                           asks for …
//!   to the lab     {"counters":{"cpu_us":…,"voluntary_switches":…,"involuntary_switches":…,
//!                  "operations":{…}}}                 … what it has used, and what it has counted
//!   to the server  queues                             asks for …
//!   to the lab     {"queues":[{"name":…,"length":…,"threads":…}]}     … how its queues are now
//!   to the server  requests                           asks for …
//!   to the lab     {"requests":{"begun":…,"answered":…,"late":…,"failed":…,"refused":…,
//!                  "open":…,"ended":…,"buckets":[…]}} … what came of requests (`--late-after`)
//!   to the server  drain, or the end of the channel   drain and exit
//! ```
//!
//! docs/visibility.md explains the counters. `connections_open` is the present number of open
//! connections. In `requests`, `open` is the same number, and `ended` is the number of ended
//! connections. The buckets are those of the `--metrics` histogram: requests of at most 1 µs, 2 µs,
//! 4 µs …, and the rest.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use duality_architectures::common::{children, refusals};
use duality_architectures::usage;
use duality_runtime::handler::{FailureKind, failures};
use duality_runtime::visibility;
use rustix::fs::{FileType, fstat};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value, json};

use crate::metrics::count_panics;

/// The channel, before the server is ready.
pub(crate) struct Control {
    orders: File,
    answers: File,
    /// The number of panics. `None` if requests are not counted.
    panics: Option<&'static AtomicU64>,
}

impl Control {
    /// Takes the socket that is this process's standard input, or its standard streams.
    pub(crate) fn on_standard_streams() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let is_socket = FileType::from_raw_mode(fstat(&input)?.st_mode) == FileType::Socket;
        let output = match is_socket {
            true => input.try_clone()?,
            false => io::stdout().as_fd().try_clone_to_owned()?,
        };
        Ok(Self { orders: File::from(input), answers: File::from(output), panics: None })
    }

    /// Begins to count requests, and requests that take longer than `limit`. Call this before
    /// connections are accepted and processes are forked.
    ///
    /// # Errors
    ///
    /// If there is no memory for the counters.
    pub(crate) fn count_requests(&mut self, limit: Duration) -> io::Result<()> {
        visibility::count_late_requests(limit);
        visibility::prepare_latencies()?;
        self.panics = Some(count_panics());
        Ok(())
    }

    /// Reports why there will be no server.
    pub(crate) fn unavailable(mut self, reason: &str) -> io::Result<()> {
        say(&mut self.answers, &json!({ "unavailable": reason }))
    }

    /// Reports that the server listens, and answers the lab from now on, in a separate thread.
    pub(crate) fn ready(mut self, address: SocketAddr) -> io::Result<()> {
        let pid = getpid().as_raw_nonzero().get();
        say(
            &mut self.answers,
            &json!({ "ready": { "address": address.to_string(), "pid": pid } }),
        )?;
        children::helper();
        thread::Builder::new().name("control".into()).spawn(move || {
            // The end of the channel, for whatever reason, ends the server: without a lab it has no
            // purpose.
            let _ = self.answer();
            let _ = kill_process(getpid(), Signal::TERM);
        })?;
        Ok(())
    }

    fn answer(self) -> io::Result<()> {
        let Self { orders, mut answers, panics } = self;
        for line in BufReader::new(orders).lines() {
            match line?.as_str() {
                "drain" => break,
                "queues" => {
                    say(&mut answers, &queues())?;
                    continue;
                }
                "requests" => {
                    say(&mut answers, &requests(panics))?;
                    continue;
                }
                _ => {}
            }
            let usage = usage::of_this_process();
            let totals = visibility::totals();
            let counted = totals.named().into_iter();
            let operations: Map<String, Value> = counted
                .chain([("page_faults", usage.page_faults)])
                .map(|(name, count)| (name.to_owned(), json!(count)))
                .collect();
            let counters = json!({ "counters": {
                "cpu_us": usage.cpu_us,
                "voluntary_switches": usage.voluntary_switches,
                "involuntary_switches": usage.involuntary_switches,
                "connections_open": totals.connections_now(),
                "operations": operations,
            }});
            say(&mut answers, &counters)?;
        }
        Ok(())
    }
}

/// The present queues.
fn queues() -> Value {
    let queue = |queue: visibility::QueueReport| json!({ "name": queue.name, "length": queue.length, "threads": queue.threads });
    json!({ "queues": visibility::queues().into_iter().map(queue).collect::<Vec<_>>() })
}

/// The outcomes of requests so far. A client that broke off, or took too long, does not count as a
/// failure of the server.
fn requests(panics: Option<&AtomicU64>) -> Value {
    let (latencies, totals) = (visibility::latencies(), visibility::totals());
    let panics = panics.map_or(0, |panics| panics.load(Ordering::Relaxed));
    let buckets: Vec<u64> = latencies.buckets.iter().map(|(_, count)| *count).collect();
    json!({ "requests": {
        "begun": latencies.begun,
        "answered": latencies.count(),
        "late": latencies.late,
        "failed": failures(FailureKind::Service) + totals.requests_failed + panics,
        "refused": refusals::refused(refusals::Reason::Full),
        "open": totals.connections_now(),
        "ended": totals.connections_ended,
        "buckets": buckets,
    }})
}

fn say(answers: &mut File, message: &Value) -> io::Result<()> {
    answers.write_all(format!("{message}\n").as_bytes())
}
