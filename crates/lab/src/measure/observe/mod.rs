//! What is seen of servers and of the machine: used resources, disturbances of processors, and
//! queues that were full.

pub(crate) mod counters;
pub(super) mod listen_queue;
pub(crate) mod noise;
