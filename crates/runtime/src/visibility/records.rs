//! Records of requests: the times of arrival and answer, and the load of the whole server at both
//! moments.
//!
//! ```text
//!   accept ─▶ Client, kept by the stream ─ begin ▶ Mark: time, blocks, clients ┐
//!                                        ─ end ──▶ Mark ───────────────────────┴▶ a row of a table
//! ```
//!
//! The table is made before the first request, touched page by page, and shared with child
//! processes. One atomic addition takes a row. Nothing is written to a file before the run is over,
//! so records disturb the measurement little. Without a table, a stream has no client, and a stage
//! boundary costs only a load and a branch that is never taken.
//!
//! Source: Truppel & Abreu, section IV.

use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use crate::pages;

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// T1: the time of arrival, in nanoseconds since [`prepare_records`]. The first request of a
    /// connection arrives with the accept. A later request arrives when its first bytes are read.
    pub came_ns: u64,
    /// T2: the time of the answer.
    pub answered_ns: u64,
    /// #B1: the number of blocks that the whole server had begun at T1, which is the number of stage
    /// boundaries that its tasks had passed.
    pub blocks_before: u64,
    /// #B2: the number of blocks at T2.
    pub blocks_after: u64,
    /// #CP1: the number of connected clients at T1, accepted ones without a turn included.
    pub clients_before: u64,
    /// #CP2: the number of connected clients at T2.
    pub clients_after: u64,
}

impl Record {
    /// T: the length of the request, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.answered_ns.saturating_sub(self.came_ns) as f64 / 1e9
    }

    /// #B: the number of blocks that the whole server began during the request.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks_after.saturating_sub(self.blocks_before)
    }

    /// TP: the blocks that the whole server began in a second during the request.
    #[must_use]
    pub fn blocks_per_second(&self) -> f64 {
        self.blocks() as f64 / self.seconds()
    }

    /// #CP: the number of connected clients, as the mean of both moments.
    #[must_use]
    pub fn clients(&self) -> f64 {
        (self.clients_before + self.clients_after) as f64 / 2.0
    }
}

/// Six numbers, in the form in which processes share them. The time of the answer is written last,
/// and is then not 0.
type Row = [AtomicU64; 6];

/// The shared counters of all tasks, on a cache line of their own.
#[derive(Default)]
#[repr(C, align(128))]
struct Counts {
    blocks: AtomicU64,
    clients: AtomicU64,
    /// Rows that were taken, including requests for rows beyond the end.
    rows: AtomicU64,
}

struct Table {
    counts: &'static Counts,
    rows: &'static [Row],
    /// The time at which the table was made, in nanoseconds of the monotonic clock.
    start: u64,
}

static TABLE: OnceLock<Table> = OnceLock::new();

/// Begins records of up to `limit` requests, for this process and the children that it forks later.
/// Call this before a connection is accepted. A second call does nothing.
///
/// # Errors
///
/// If there is no memory for this many.
pub fn prepare_records(limit: usize) -> io::Result<()> {
    if TABLE.get().is_some() {
        return Ok(());
    }
    let bytes =
        limit.checked_mul(size_of::<Row>()).and_then(|rows| rows.checked_add(size_of::<Counts>()));
    let memory = pages::share(bytes.ok_or(io::ErrorKind::OutOfMemory)?)?;
    // SAFETY: the mapping is aligned to a page, longer than the counts, never unmapped, and all
    // zeroes, which is a valid value of atomic integers.
    let counts = unsafe { memory.cast::<Counts>().as_ref() };
    // SAFETY: the rows follow the counts within the mapping, aligned to 128 bytes. The mapping is
    // never unmapped, and its zeroes are valid rows.
    let rows = unsafe {
        let first: NonNull<Row> = memory.add(size_of::<Counts>()).cast();
        slice::from_raw_parts(first.as_ptr(), limit)
    };
    // Touch the pages now, so that no request pays for a page.
    for row in rows.iter().step_by(4096 / size_of::<Row>()).chain(rows.last()) {
        row[0].store(0, Ordering::Relaxed);
    }
    let _ = TABLE.set(Table { counts, rows, start: now() });
    Ok(())
}

/// The requests that have been answered so far, in the order of their answers, and the number of
/// requests without a row.
#[must_use]
pub fn records() -> (Vec<Record>, u64) {
    let Some(table) = TABLE.get() else { return Default::default() };
    let taken = table.counts.rows.load(Ordering::Acquire);
    let kept = table.rows.len().min(usize::try_from(taken).unwrap_or(usize::MAX));
    let mut records: Vec<Record> = table.rows[..kept].iter().filter_map(read).collect();
    records.sort_by_key(|record| record.answered_ns);
    (records, taken - kept as u64)
}

/// `None` for a row that is being written, or that a process has left half-written by its death.
fn read(row: &Row) -> Option<Record> {
    let answered_ns = row[5].load(Ordering::Acquire);
    let [came_ns, blocks_before, blocks_after, clients_before, clients_after] =
        [0, 1, 2, 3, 4].map(|index: usize| row[index].load(Ordering::Relaxed));
    (answered_ns != 0).then_some(Record {
        came_ns,
        answered_ns,
        blocks_before,
        blocks_after,
        clients_before,
        clients_after,
    })
}

/// Counts a block that begins.
#[inline]
pub(crate) fn block_begins() {
    if let Some(table) = TABLE.get() {
        table.counts.blocks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether requests are recorded.
pub(super) fn are_kept() -> bool {
    TABLE.get().is_some()
}

/// A moment.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    time: u64,
    blocks: u64,
    clients: u64,
}

impl Mark {
    /// The time `now`, as a mark. `None` if nothing is recorded.
    pub(super) fn at(now: u64) -> Option<Self> {
        let table = TABLE.get()?;
        Some(Self {
            time: now.saturating_sub(table.start),
            blocks: table.counts.blocks.load(Ordering::Relaxed),
            clients: table.counts.clients.load(Ordering::Relaxed),
        })
    }

    /// Records a request that arrived at `mark`, and was answered at `answered`.
    pub(super) fn add_until(self, answered: Self) {
        if let Some(table) = TABLE.get() {
            table.add(self, answered);
        }
    }
}

/// Counts a new client.
pub(super) fn client_came() {
    if let Some(table) = TABLE.get() {
        table.counts.clients.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a client that has left.
pub(super) fn client_went() {
    if let Some(table) = TABLE.get() {
        table.counts.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Table {
    fn add(&self, came: Mark, answered: Mark) {
        let index = self.counts.rows.fetch_add(1, Ordering::Relaxed);
        let Some(row) = usize::try_from(index).ok().and_then(|index| self.rows.get(index)) else {
            return;
        };
        let numbers = [came.time, came.blocks, answered.blocks, came.clients, answered.clients];
        for (place, number) in row.iter().zip(numbers) {
            place.store(number, Ordering::Relaxed);
        }
        row[5].store(answered.time.max(1), Ordering::Release);
    }
}

/// The monotonic clock, in nanoseconds.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
