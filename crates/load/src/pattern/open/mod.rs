//! The open loop: requests are due at times that do not depend on the answers, like those of
//! independent users.
//!
//! ```text
//!   pacer (a kernel thread)            the load's loop
//!   ───────────────────────            ───────────────
//!   sleeps until the next      due     ┌▶ connection 1   ├── request ──┤      ├─ request ─┤
//!   request is due, and puts ──────▶ queue
//!   it into the queue                  └▶ connection c         ├───── request ─────┤
//!
//!   a request      due ├╌╌ send lag ╌╌┤ sent ├────────── raw latency ──────────┤ answered
//!                      ├─────────────────── latency ───────────────────────────┤
//! ```
//!
//! If requests come faster than the server answers, connections run out and requests wait in the
//! queue. The server causes that wait, so latency counts from a request's due time. A client that
//! counts from the sending leaves out the worst latencies (*coordinated omission*). So does a
//! client that does not send while it waits for a reply. Both latencies are measured, for
//! comparison.
//!
//! A free connection takes the next request. The connection that has been free longest comes first.

pub(crate) mod arrivals;
pub(crate) mod pacer;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duality_runtime::task;

use self::arrivals::Arrivals;
use self::pacer::{Clock, Pacer, StoppedClock};
use super::Named;
use crate::announce::EdgeAnnouncer;
use crate::connection::{Connection, Load};
use crate::due::{FreeConnection, Queue};
use crate::engine::{Engine, Interrupted, Outcome, not_started};
use crate::measurement::Start;
use crate::request::Client;
use crate::{Error, Stop};

/// The interval at which the load checks whether all connections are open.
const GLANCE: Duration = Duration::from_millis(1);

pub(super) const NAMED: Named = Named {
    name: "open",
    about: "requests come at a rate (-R), whatever became of those before",
    pattern: None,
    keep_alive: None,
};

/// Runs a load in this pattern.
pub(super) async fn load<C: Client>(
    engine: &Engine,
    client: &C,
    arrivals: Arrivals,
    hook: EdgeAnnouncer,
) -> Result<Outcome, Error> {
    let (clock, queue) = (Clock::new(), Arc::new(Queue::new()));
    let hook = StoppedClock { clock: clock.clone(), hook };
    let load = engine.shared(engine.edges(), Some(queue.clone()), Box::new(hook));
    let connections = engine.options.connections;
    start(client, connections, &queue, &load).map_err(not_started)?;
    // The schedule begins when the connections are open. An earlier request would be late through
    // no fault of the server.
    while queue.free() < connections {
        let waited = engine.wait(GLANCE, &load.recorder).await;
        waited.map_err(|Interrupted| Error::Interrupted)?;
    }
    load.recorder.ready();
    clock.restart();
    let count = match engine.options.stop {
        Stop::After(_) => u64::MAX,
        Stop::Requests(total) => total,
    };
    let schedule = arrivals.schedule(engine.options.seed);
    let pacer = Pacer::start(schedule, count, clock, queue)
        .map_err(|error| Error::System { doing: "starting the pacer's thread", error })?;
    let outcome = engine.finish(&load.recorder).await;
    drop(pacer);
    Ok(outcome)
}

/// Starts `connections` connections that take their requests from `queue`. When this many are
/// [free](Queue::free), all have been opened or could not be.
fn start<C: Client>(
    client: &C,
    connections: usize,
    queue: &Arc<Queue>,
    load: &Arc<Load>,
) -> io::Result<()> {
    for number in 0..connections {
        let connection = Connection::new(number, client);
        task::spawn(run(connection, queue.clone(), load.clone()))?;
    }
    Ok(())
}

/// Makes one request after the other, each at its due time or as soon as possible afterwards.
async fn run<C: Client>(mut connection: Connection<C>, queue: Arc<Queue>, load: Arc<Load>) {
    if load.keep_alive {
        // The connection carries many requests, so none of them includes the time to open it. If
        // opening fails, the first request tries again and reports it.
        let _ = connection.open(&load).await;
    }
    let mut place = FreeConnection::new();
    let mut free = Instant::now();
    loop {
        let due = queue.next(&mut place).await;
        let start = Start { due, sent: Instant::now(), free };
        if !load.recorder.begin(connection.number, start) {
            return;
        }
        let outcome = connection.request(&load).await;
        free = connection.end(&load, start, outcome).await;
    }
}
