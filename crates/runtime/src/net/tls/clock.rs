//! The time of day that certificates are valid at.

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

use crate::time::time_of_day;

/// The clock of the host: a simulated host has its own time of day.
#[derive(Debug)]
pub(super) struct HostClock;

impl TimeProvider for HostClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(time_of_day()))
    }
}
