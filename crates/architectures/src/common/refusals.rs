//! Counts refused connections by reason, for all processes of a server together.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use duality_runtime::shared;

/// The reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No slot became free (`--max-connections`).
    Full,
    /// The address has too many connections (`--max-per-address`).
    Address,
    /// The address opens connections too fast (`--rate-per-address`).
    Rate,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Full, Self::Address, Self::Rate];

    /// The name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Address => "address",
            Self::Rate => "rate",
        }
    }
}

fn counts() -> &'static [AtomicU64; Reason::ALL.len()] {
    static COUNTS: OnceLock<&'static [AtomicU64; Reason::ALL.len()]> = OnceLock::new();
    COUNTS.get_or_init(shared::words)
}

/// Makes the counters. Call it before you fork processes that are to share them.
pub(crate) fn prepare() {
    counts();
}

/// Counts a connection that is refused.
pub fn count(reason: Reason) {
    counts()[reason as usize].fetch_add(1, Ordering::Relaxed);
}

/// The number of connections refused for this reason.
#[must_use]
pub fn refused(reason: Reason) -> u64 {
    counts()[reason as usize].load(Ordering::Relaxed)
}
