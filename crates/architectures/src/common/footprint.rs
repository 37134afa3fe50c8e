//! The limited kernel resources that a connection takes, in addition to descriptors.
//!
//! Each architecture declares its own footprint next to its definition
//! ([`Architecture::footprint`](crate::Architecture::footprint)). From it, `duality capacity`
//! computes how many connections the server can have before a resource runs out.

use super::options::Options;

/// The resources of a server that each connection takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Processes.
    pub processes: usize,
    /// Kernel threads, beside those of the processes.
    pub threads: usize,
    /// Mappings of the server's process.
    pub mappings: Mappings,
    /// The most connections that the server has accepted at a time. Further ones wait in the
    /// kernel's accept queue, and are dropped if it overflows. `None`: as many as there are
    /// descriptors for.
    pub accepted: Option<usize>,
}

/// The mappings, limited by `vm.max_map_count`, that each connection takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    /// Mappings for each connection.
    pub each: usize,
    /// Mappings that connections cannot have, because the rest of the process needs them.
    pub reserved: usize,
    /// The first version of Linux, as major and minor number, on which connections take no
    /// mappings.
    pub none_from: Option<(u32, u32)>,
}

impl Footprint {
    /// A connection is a state machine, and the server accepts all connections.
    pub const STATE: Self = Self {
        processes: 0,
        threads: 0,
        mappings: Mappings { each: 0, reserved: 0, none_from: None },
        accepted: None,
    };

    /// One of N workers serves a connection. The workers are made at the start, and accept for
    /// themselves.
    pub fn of_workers(workers: usize) -> Self {
        Self { accepted: Some(workers), ..Self::STATE }
    }

    /// A connection is a task in blocks, and the server stops accepting at `--admit`.
    pub fn admitted(options: &Options) -> Self {
        Self { accepted: options.admit, ..Self::STATE }
    }
}
