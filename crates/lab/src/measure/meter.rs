//! Observes the processors of servers and loads, from one moment to the next.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::load_command::cpu_of_children;
use super::observe::counters;
use super::observe::noise::{NoiseMeter, Used};
use super::server::Server;
use crate::record::Disturbance;

/// Looks at processors, wherever they are.
pub(super) trait Meter {
    /// The disturbance since the last look. The first look has none. `servers` gives the processor
    /// time of all servers so far. Where the servers' hosts know that time, `servers` is not
    /// called.
    fn look(
        &mut self,
        servers: &mut dyn FnMut() -> io::Result<Duration>,
    ) -> io::Result<Disturbance>;

    /// The disturbance around a window of one server. The outcome of the window reports a failure
    /// of the server.
    fn look_at(&mut self, server: &mut dyn Server) -> Disturbance {
        let used = &mut || Ok(server.cpu().unwrap_or_default());
        self.look(used).unwrap_or_default()
    }
}

/// The experiment's own processes on the load generator's processors: the stores of its servers,
/// and the server behind its relays. They are no strangers. A clone knows the same processes.
#[derive(Clone, Default)]
pub(super) struct BesideLoad(Arc<Mutex<Vec<u32>>>);

impl BesideLoad {
    /// Adds a process. It counts until it has ended.
    pub(super) fn add(&self, pid: u32) {
        self.pids().push(pid);
    }

    /// The processor time of the living processes. [`own_cpu`] has that of the ended ones.
    fn cpu(&self) -> Duration {
        let mut all = Duration::ZERO;
        self.pids().retain(|&pid| counters::cpu_of(pid).map(|used| all += used).is_ok());
        all
    }

    fn pids(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the processors of this machine.
pub(super) struct OfThisMachine {
    noise: NoiseMeter,
    beside_load: BesideLoad,
}

impl OfThisMachine {
    /// A meter of the processors of the servers, and of those of the load.
    pub(super) fn new(
        server_cpus: &[usize],
        client_cpus: &[usize],
        beside_load: BesideLoad,
    ) -> Self {
        Self { noise: NoiseMeter::new(server_cpus, client_cpus), beside_load }
    }
}

impl Meter for OfThisMachine {
    fn look(
        &mut self,
        servers: &mut dyn FnMut() -> io::Result<Duration>,
    ) -> io::Result<Disturbance> {
        let client = own_cpu() + self.beside_load.cpu();
        Ok(self.noise.since_last(Used { servers: servers()?, client }))
    }
}

/// The processor time of this process and of its ended children, one of which makes the load.
/// Servers end between measurements.
fn own_cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let own = Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32);
    own + cpu_of_children()
}
