//! The limited kernel resources that a connection takes, as an architecture declares them.

/// The resources of a server that each open connection takes, in addition to descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Processes.
    pub processes: usize,
    /// Kernel threads, in addition to the first thread of each process.
    pub threads: usize,
    /// Mappings of the server's process.
    pub mappings: usize,
    /// Mappings that connections cannot have.
    pub reserved_mappings: usize,
    /// The first version of Linux, as major and minor number, in which connections take no mapping.
    pub no_mappings_from: Option<(u32, u32)>,
    /// The most accepted connections at a time. `None` if the server accepts every connection.
    pub accepted: Option<usize>,
    /// The length of the accept queue, if the kernel allows as many.
    pub backlog: usize,
    /// The limit on descriptors that the server's options set; `None` means the hard limit.
    pub descriptors: Option<u64>,
}
