//! What a verdict is asked, and the errors and numbers that it and the race share.

use std::collections::BTreeSet;

use crate::record::{Heading, Records};

/// The probability that an experiment puts an equal subject out of a best set, over all numbers of
/// connections.
pub const FAMILY_ERROR: f64 = 0.025;
/// With fewer blocks, the verdict recommends none of several subjects.
pub const FEWEST_BLOCKS: usize = 15;
/// With fewer sessions of fresh servers, the verdict recommends none of several subjects. The same
/// holds for rounds of windows that are measured in turn.
pub const FEWEST_SESSIONS: usize = 3;

/// The inputs of the verdict.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The experiment as designed.
    pub heading: &'a Heading,
    /// The results.
    pub records: &'a Records,
    /// Subjects that cannot be chosen at a number of connections because of a fault. Faults are
    /// wrong replies, unserved connections, a full listen queue, invalid cells, and a broken
    /// constraint.
    pub disqualified: &'a BTreeSet<(String, usize)>,
}
