//! Observes the processors of servers and loads, from one moment to the next.

use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::counters::cpu_of_living;
use super::load_command::cpu_of_children;
use super::noise::{NoiseMeter, Used};
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

/// Looks at the processors of this machine.
pub(super) struct OfThisMachine {
    noise: NoiseMeter,
    beside_load: Vec<u32>,
}

impl OfThisMachine {
    /// A meter of the processors of the servers, and of those of the load. `beside_load` has the
    /// experiment's own processes on the load's processors, which are no strangers.
    pub(super) fn new(server_cpus: &[usize], client_cpus: &[usize], beside_load: Vec<u32>) -> Self {
        Self { noise: NoiseMeter::new(server_cpus, client_cpus), beside_load }
    }
}

impl Meter for OfThisMachine {
    fn look(
        &mut self,
        servers: &mut dyn FnMut() -> io::Result<Duration>,
    ) -> io::Result<Disturbance> {
        let client = own_cpu() + cpu_of_living(&self.beside_load);
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
