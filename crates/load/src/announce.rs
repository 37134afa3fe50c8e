//! Carries the load thread's announcements to the observer of the caller of [`run`](crate::run).
//!
//! ```text
//!   caller's thread                      load thread
//!   ───────────────                      ───────────
//!   waits for announcements  ◀─progress─ (never waits)
//!   observer.progress()
//!                            ◀──opened── the window's edge: waits
//!   observer.window_opened()
//!   acknowledges             ──────────▶ takes the time, and the load goes on
//! ```
//!
//! The observer belongs to the caller, may borrow from it and need not be `Send`. So it stays on
//! the caller's thread, and the load stands still while it reads the server's counters at an edge.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Observer;
use crate::edges::{EdgeHook, Moment};
use crate::snapshot::Snapshot;

/// The longest delay before an interruption is passed on.
const ATTENTION: Duration = Duration::from_millis(50);

enum Announcement {
    Opened,
    Closed,
    Progress { requests: u64, elapsed: Duration },
    Snapshot(Box<Snapshot>),
}

/// The load thread's end.
pub(crate) struct Announcer {
    announcements: SyncSender<Announcement>,
    stop: Arc<AtomicBool>,
    wants_snapshots: bool,
}

/// The load thread's end for the window's edges.
pub(crate) struct EdgeAnnouncer {
    announcements: SyncSender<Announcement>,
    acknowledged: Receiver<()>,
}

/// The caller's end.
pub(crate) struct Announcements {
    announcements: Receiver<Announcement>,
    acknowledge: SyncSender<()>,
    stop: Arc<AtomicBool>,
}

pub(crate) fn announcements(wants_snapshots: bool) -> (Announcer, EdgeAnnouncer, Announcements) {
    let (announce, announcements) = sync_channel(1);
    let (acknowledge, acknowledged) = sync_channel(1);
    let stop = Arc::new(AtomicBool::new(false));
    (
        Announcer { announcements: announce.clone(), stop: stop.clone(), wants_snapshots },
        EdgeAnnouncer { announcements: announce, acknowledged },
        Announcements { announcements, acknowledge, stop },
    )
}

impl Announcer {
    /// Whether the observer shows the load.
    pub(crate) fn wants_snapshots(&self) -> bool {
        self.wants_snapshots
    }

    /// Announces the load's progress. Returns false if the load must stop.
    pub(crate) fn progress(&self, requests: u64, elapsed: Duration) -> bool {
        self.offer(Announcement::Progress { requests, elapsed })
    }

    /// Announces the load's counters. Returns false if the load must stop.
    pub(crate) fn snapshot(&self, snapshot: Snapshot) -> bool {
        self.offer(Announcement::Snapshot(Box::new(snapshot)))
    }

    fn offer(&self, announcement: Announcement) -> bool {
        // A caller that is still busy with the last announcement misses this one.
        let sent = self.announcements.try_send(announcement);
        !matches!(sent, Err(TrySendError::Disconnected(_))) && !self.stop.load(Ordering::Relaxed)
    }
}

impl EdgeAnnouncer {
    fn announce(&self, announcement: Announcement) {
        // Without a caller, no wait is needed, and the next progress stops the load.
        if self.announcements.send(announcement).is_ok() {
            let _ = self.acknowledged.recv();
        }
    }
}

impl EdgeHook for EdgeAnnouncer {
    fn opened(&mut self) -> Moment {
        self.announce(Announcement::Opened);
        moment()
    }

    fn closed(&mut self) -> Moment {
        let closed = moment();
        self.announce(Announcement::Closed);
        closed
    }
}

impl Announcements {
    /// Passes on the load thread's announcements until the last one.
    pub(crate) fn relay(self, observer: &mut dyn Observer, interrupted: &AtomicBool) {
        while self.pass_on(observer, interrupted) {}
    }

    /// Passes on the load thread's announcements until it answers. `None` if it ends without an
    /// answer.
    pub(crate) fn relay_until<T>(
        self,
        observer: &mut dyn Observer,
        interrupted: &AtomicBool,
        answer: &Receiver<T>,
    ) -> Option<T> {
        loop {
            match answer.try_recv() {
                Ok(answer) => return Some(answer),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            if !self.pass_on(observer, interrupted) {
                return answer.recv().ok();
            }
        }
    }

    /// Passes on the next announcement, if one comes soon. Returns false if no more will come.
    fn pass_on(&self, observer: &mut dyn Observer, interrupted: &AtomicBool) -> bool {
        match self.announcements.recv_timeout(ATTENTION) {
            Ok(Announcement::Opened) => {
                observer.window_opened();
                let _ = self.acknowledge.send(());
            }
            Ok(Announcement::Closed) => {
                observer.window_closed();
                let _ = self.acknowledge.send(());
            }
            Ok(Announcement::Progress { requests, elapsed }) => {
                observer.progress(requests, elapsed);
            }
            Ok(Announcement::Snapshot(snapshot)) => observer.snapshot(&snapshot),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        if interrupted.load(Ordering::Relaxed) {
            self.stop.store(true, Ordering::Relaxed);
        }
        true
    }
}

/// The time, and how long the calling thread has used a processor and waited for one.
pub(crate) fn moment() -> Moment {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec.unsigned_abs() as u32);
    Moment { cpu, waited: run_queue_wait(), instant: Instant::now() }
}

/// The time that the calling thread was ready to run without a processor: the second number of its
/// schedstat (Documentation/scheduler/sched-stats.rst). Zero if the kernel does not report it.
fn run_queue_wait() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
