//! What a connection takes of the things that the kernel limits, as an architecture declares it.

/// What each open connection takes of a server, beside its descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Processes.
    pub processes: usize,
    /// Kernel threads, beside those of the processes.
    pub threads: usize,
    /// Mappings of the server's process.
    pub mappings: usize,
    /// Mappings that connections cannot have.
    pub reserved_mappings: usize,
    /// The first version of Linux, as major and minor number, on which connections take no mapping.
    pub no_mappings_from: Option<(u32, u32)>,
    /// The most accepted connections at a time. `None`: the server accepts every connection.
    pub accepted: Option<usize>,
    /// How many connections may wait to be accepted, where the kernel allows as many.
    pub backlog: usize,
    /// The limit on descriptors that the server's options set; none: the hard limit.
    pub descriptors: Option<u64>,
}
