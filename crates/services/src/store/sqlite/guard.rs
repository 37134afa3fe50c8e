//! Checks that the file is still the opened file, and still whole.
//!
//! SQLite writes into its log, and reads the file only when it needs a page. So it does not notice
//! that another program deletes, replaces, truncates or overwrites the file. SQLite goes on
//! writing, and its acknowledged writes are lost. The guard compares the results of `stat(2)`
//! before and after each write:
//!
//! ```text
//!   gone, or another inode at the path  the write is refused
//!   changed since it was known whole    a new connection looks through it (`PRAGMA quick_check`)
//!   changed while we wrote              SQLite moved pages from the log into the file: it is whole
//!   shorter while we wrote, or no log   the write is not acknowledged
//! ```
//!
//! The processes of a service share the guard's state. So if one process deletes the log, the
//! others are not alarmed. A write by another program causes a look through the file, even if that
//! program uses SQLite. Looks take at most one hundredth of the time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use duality_runtime::shared;
use duality_runtime::time::{self, Duration, Instant};
use rustix::io::Errno;

/// The pause before the next look, in multiples of the last look's time.
const REST: u32 = 100;

/// How long a process waits for another process that has begun a look.
const LOOKING: Duration = Duration::from_secs(1);

/// Stands for a stamp: the file stays unfit, even if it changes.
const FOR_EVER: u64 = u64::MAX;

/// The shared facts about a file. Child processes share the numbers.
pub(super) struct Guard {
    path: PathBuf,
    /// The write-ahead log beside it.
    log: PathBuf,
    began: Instant,
    /// The identity of the file.
    identity: &'static AtomicU64,
    /// The stamp of the file when it was last whole.
    whole: &'static AtomicU64,
    /// The stamp of the file when it was found unfit, or [`FOR_EVER`]. 0 is none.
    unfit: &'static AtomicU64,
    /// The number of looks through the file. A connection from before a look may have read data
    /// that no longer exist.
    looks: &'static AtomicU64,
    /// When the next look may begin, in milliseconds.
    next_look: &'static AtomicU64,
}

/// The result of `stat(2)` for the file.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    /// The device and the inode.
    identity: u64,
    length: u64,
    /// Made of identity, length and time of the last change. An equal stamp means an unchanged
    /// file.
    stamp: u64,
}

/// Why the store must not write.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum Unfit {
    #[error("the file is gone: put it back")]
    Gone,
    #[error("the file cannot be looked at: {0}")]
    Unseen(Errno),
    #[error(
        "another file is in its place: put back the old one, or restart the service to use the new one"
    )]
    Replaced,
    #[error("the file is damaged: {0}: restore it from a copy and restart the service")]
    Damaged(String),
    #[error(
        "its log was deleted or replaced, and with it what was written last: restart the service"
    )]
    LogLost,
}

impl Guard {
    /// A guard of the file at `path`, which need not exist yet. Make it before you fork the
    /// processes that share it.
    pub(super) fn new(path: &Path) -> Self {
        let mut log = path.to_owned().into_os_string();
        log.push("-wal");
        let [identity, whole, unfit, looks, next_look] = shared::words();
        let (path, log, began) = (path.to_owned(), log.into(), time::now());
        Self { path, log, began, identity, whole, unfit, looks, next_look }
    }

    /// The write-ahead log.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Notes that the present file is the store's file, and whole.
    pub(super) fn begin(&self) -> Result<(), Unfit> {
        let sight = see(&self.path)?;
        self.identity.store(sight.identity, Relaxed);
        self.whole.store(sight.stamp, Relaxed);
        Ok(())
    }

    /// Checks that the file exists and is not known to be unfit.
    pub(super) fn see(&self) -> Result<Sight, Unfit> {
        let sight = see(&self.path)?;
        if sight.identity != self.identity.load(Relaxed) {
            return Err(Unfit::Replaced);
        }
        // SQLite takes an empty file for a new one, and deletes its log.
        if sight.length == 0 {
            return Err(Unfit::Damaged("it has been cut to nothing".into()));
        }
        match self.unfit.load(Relaxed) {
            FOR_EVER => Err(Unfit::LogLost),
            unfit if unfit == sight.stamp => {
                Err(Unfit::Damaged("it was found to be so before".into()))
            }
            _ => Ok(sight),
        }
    }

    /// Whether the caller must look through the file before it writes.
    pub(super) fn asks_for_a_look(&self, sight: &Sight) -> bool {
        if sight.stamp == self.whole.load(Relaxed) {
            return false;
        }
        let (now, next) = (self.now(), self.next_look.load(Relaxed));
        let later = now + LOOKING.as_millis() as u64;
        now >= next && self.next_look.compare_exchange(next, later, Relaxed, Relaxed).is_ok()
    }

    /// Notes that the caller has looked through the file, how long that took, and whether the file
    /// was whole.
    pub(super) fn looked(&self, sight: &Sight, took: Duration, is_whole: bool) {
        let verdict = if is_whole { self.whole } else { self.unfit };
        verdict.store(sight.stamp, Relaxed);
        self.looks.fetch_add(1, Relaxed);
        // A file that was damaged and has changed since is looked through before anything else.
        let rest = if is_whole { took.saturating_mul(REST).as_millis() as u64 } else { 0 };
        self.next_look.store(self.now() + rest, Relaxed);
    }

    /// The number of looks through the file.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Relaxed)
    }

    /// Notes that a read has returned an impossible value. The next write looks through the file.
    pub(super) fn suspect(&self) {
        self.whole.store(0, Relaxed);
        self.next_look.store(0, Relaxed);
    }

    /// Call it after a write by a connection to `log`, with the file's state `before` the write.
    /// Checks that the write is kept, and returns the length of the log.
    pub(super) fn kept(&self, before: &Sight, log: LogIdentity) -> Result<u64, Unfit> {
        let after = self.see()?;
        if after.length < before.length {
            let (from, to) = (before.length, after.length);
            return Err(Unfit::Damaged(format!("it was cut from {from} to {to} bytes")));
        }
        let log_now = see(&self.log).ok().filter(|sight| LogIdentity(sight.identity) == log);
        let Some(log_now) = log_now else {
            // Other connections may have the old log open, or the new one.
            self.unfit.store(FOR_EVER, Relaxed);
            return Err(Unfit::LogLost);
        };
        // The value is written only after a change, so that it stays in each processor's cache.
        if after.stamp != before.stamp {
            let _ = self.whole.compare_exchange(before.stamp, after.stamp, Relaxed, Relaxed);
        }
        Ok(log_now.length)
    }

    /// The present log.
    pub(super) fn log_identity(&self) -> Result<LogIdentity, Unfit> {
        see(&self.log).map(|sight| LogIdentity(sight.identity)).map_err(|_| Unfit::LogLost)
    }

    fn now(&self) -> u64 {
        time::since(self.began).as_millis() as u64
    }
}

/// Distinguishes a log from later ones at the same path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LogIdentity(u64);

fn see(path: &Path) -> Result<Sight, Unfit> {
    let stat = rustix::fs::stat(path).map_err(|error| match error {
        Errno::NOENT => Unfit::Gone,
        error => Unfit::Unseen(error),
    })?;
    let identity = hash((stat.st_dev, stat.st_ino));
    let stamp = hash((identity, stat.st_size, stat.st_mtime, stat.st_mtime_nsec));
    Ok(Sight { identity, length: stat.st_size as u64, stamp })
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    // The result is never 0, which means none.
    hasher.finish() | 1
}
