//! The server's end of the lab's control channel: lines of JSON over a socket on standard input.
//!
//! | direction | line | meaning |
//! | --- | --- | --- |
//! | to the lab | `{"ready":{"address":…,"pid":…}}` | it listens |
//! | to the lab | `{"unavailable":"…"}` | the architecture cannot carry the service, and why |
//! | to the server | `counters` | asks for … |
//! | to the lab | `{"counters":{"cpu_us":…,"voluntary_switches":…,"involuntary_switches":…,"operations":{…}}}` | … what it has used, and what it has counted (docs/visibility.md) |
//! | to the server | `queues` | asks for … |
//! | to the lab | `{"queues":[{"name":…,"length":…,"threads":…}]}` | … how its queues are now |
//! | to the server | `drain`, or the end of the channel | drain and exit |
//!
//! The counters have `connections_open`, too: how many connections the server has at that moment.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;

use duality_architectures::common::children;
use duality_architectures::usage;
use duality_runtime::visibility;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value, json};

/// The channel, before the server is ready.
pub(crate) struct Control {
    socket: UnixStream,
}

impl Control {
    /// Takes the socket that is this process's standard input.
    pub(crate) fn on_standard_input() -> io::Result<Self> {
        let descriptor = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self { socket: UnixStream::from(descriptor) })
    }

    /// Says why there will be no server.
    pub(crate) fn unavailable(mut self, reason: &str) -> io::Result<()> {
        say(&mut self.socket, &json!({ "unavailable": reason }))
    }

    /// Says that the server listens, and answers the lab from now on, on a thread of its own.
    pub(crate) fn ready(mut self, address: SocketAddr) -> io::Result<()> {
        let pid = getpid().as_raw_nonzero().get();
        say(&mut self.socket, &json!({ "ready": { "address": address.to_string(), "pid": pid } }))?;
        children::helper();
        thread::Builder::new().name("control".into()).spawn(move || {
            // Whatever ends the channel ends the server: without a lab it has no purpose.
            let _ = answer(self.socket);
            let _ = kill_process(getpid(), Signal::TERM);
        })?;
        Ok(())
    }
}

fn answer(mut socket: UnixStream) -> io::Result<()> {
    for line in BufReader::new(socket.try_clone()?).lines() {
        match line?.as_str() {
            "drain" => break,
            "queues" => {
                say(&mut socket, &queues())?;
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
        say(&mut socket, &counters)?;
    }
    Ok(())
}

/// The queues as they are now.
fn queues() -> Value {
    let queue = |queue: visibility::QueueReport| json!({ "name": queue.name, "length": queue.length, "threads": queue.threads });
    json!({ "queues": visibility::queues().into_iter().map(queue).collect::<Vec<_>>() })
}

fn say(socket: &mut UnixStream, message: &Value) -> io::Result<()> {
    socket.write_all(format!("{message}\n").as_bytes())
}
