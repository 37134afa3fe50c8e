//! What a simulated host does where a drain would otherwise ask the kernel.

use std::os::fd::RawFd;
use std::sync::OnceLock;

/// Says whether this kernel thread is a simulated host's. If so, ends the input of the sockets of
/// these descriptors, in the order in which the sockets were made: the numbers are the kernel's.
pub(crate) type Simulation = fn(&[RawFd]) -> bool;

/// The function that `machine`, which is above this module, leaves here.
static SIMULATION: OnceLock<Simulation> = OnceLock::new();

pub(crate) fn simulate_by(simulation: Simulation) {
    let _ = SIMULATION.set(simulation);
}

pub(super) fn simulated(inputs: &[RawFd]) -> bool {
    SIMULATION.get().is_some_and(|simulation| simulation(inputs))
}
