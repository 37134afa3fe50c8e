//! Reports on standard error of a store that comes and goes: at most two lines in ten seconds, from
//! all processes of a service together.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use duality_runtime::time::{self, Duration, Instant};
use duality_runtime::{log, shared};

/// In this time there are at most two lines. So both ends of a short outage are reported.
const QUIET: Duration = Duration::from_secs(10);

/// The store works, or was not reported yet.
const THERE: u64 = 0;
/// The store does not work.
const AWAY: u64 = 1;
/// A line is being written. The next line must wait, so that "is back" never comes before "is
/// unavailable".
const SAYING: u64 = 2;

/// The reports about one store so far. The numbers are shared with the child processes.
///
/// While there are calls, the last line is out of date for at most [`QUIET`], because each call
/// compares it with its own result.
pub(super) struct Reports {
    began: Instant,
    /// The last report: [`THERE`] or [`AWAY`], or [`SAYING`].
    said: &'static AtomicU64,
    /// Calls that have failed since then.
    failed: &'static AtomicU64,
    /// When the last line and the line before it were written, in milliseconds. 0 is never.
    last: &'static AtomicU64,
    before_last: &'static AtomicU64,
}

impl Reports {
    /// Reports without a line yet. Make them before you fork the processes that share them.
    pub(super) fn new() -> Self {
        let [said, failed, last, before_last] = shared::words();
        Self { began: time::now(), said, failed, last, before_last }
    }

    /// Notes that a call has failed, as `line` says.
    pub(super) fn failed(&self, line: &dyn fmt::Display) {
        if !self.may_change_to(AWAY) {
            self.failed.fetch_add(1, Relaxed);
            return;
        }
        match self.failed.swap(0, Relaxed) {
            0 => log::warn(line),
            before => {
                log::warn(format_args!("{line} ({before} calls before this one failed as well)"));
            }
        }
        self.said.store(AWAY, Relaxed);
    }

    /// Notes that a call has succeeded. `place` names the store.
    #[inline]
    pub(super) fn succeeded(&self, place: &str) {
        // The value is written only when it changes, so that it stays in every core's cache.
        if self.said.load(Relaxed) == AWAY {
            self.is_back(place);
        }
    }

    #[cold]
    fn is_back(&self, place: &str) {
        if self.may_change_to(THERE) {
            let failed = self.failed.swap(0, Relaxed);
            log::warn(format_args!("the store {place} is back ({failed} more calls have failed)"));
            self.said.store(THERE, Relaxed);
        }
    }

    /// Whether this caller must report now that the state is no longer the reported one. No other
    /// line is written until the caller has written its line and stored the state. A process that
    /// is killed in between leaves [`SAYING`]; after [`QUIET`] another caller takes over.
    fn may_change_to(&self, state: u64) -> bool {
        let last = self.said.load(Relaxed);
        if last == state {
            return false;
        }
        let now = time::since(self.began).as_millis() as u64 + 1;
        let is_recent = |then: u64| then > 0 && now < then + QUIET.as_millis() as u64;
        let is_quiet = is_recent(self.before_last.load(Relaxed))
            || (last == SAYING && is_recent(self.last.load(Relaxed)));
        if is_quiet || self.said.compare_exchange(last, SAYING, Relaxed, Relaxed).is_err() {
            return false;
        }
        self.before_last.store(self.last.swap(now, Relaxed), Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_outage_is_not_told_before_its_beginning() {
        let reports = Reports::new();
        assert!(reports.may_change_to(AWAY), "the first failure is told");
        // The line is not written yet. Meanwhile, calls of other threads succeed and fail.
        assert!(!reports.may_change_to(THERE));
        assert!(!reports.may_change_to(AWAY));
        reports.said.store(AWAY, Relaxed);
        assert!(reports.may_change_to(THERE));
        reports.said.store(THERE, Relaxed);
        assert!(!reports.may_change_to(AWAY), "a third line within ten seconds");
    }
}
