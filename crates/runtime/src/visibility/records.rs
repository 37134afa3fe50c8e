//! Records: for each request, when it came and when it was answered, and how busy the whole server
//! was at both moments.
//!
//! ```text
//!   accept ─▶ Client, kept by the stream ─ begin ▶ Mark: time, blocks, clients ┐
//!                                        ─ end ──▶ Mark ───────────────────────┴▶ a row of a table
//! ```
//!
//! The table is made before the first request, touched page by page, and shared with child
//! processes; rows are taken by one atomic addition. Nothing is written to a file before the run is
//! over, so the records disturb the measurement little. Without a table, a stream has no client, a
//! stage boundary costs a load and a branch that is never taken, and that is all.
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
    /// T1: when it came, in nanoseconds since [`prepare_records`]. The first request of a
    /// connection comes with the connection, when that is accepted; a later one when its first
    /// bytes are read.
    pub came_ns: u64,
    /// T2: when it was answered.
    pub answered_ns: u64,
    /// #B1: how many blocks the whole server had begun by then, which is how many stage boundaries
    /// its tasks had passed.
    pub blocks_before: u64,
    /// #B2: the same when it was answered.
    pub blocks_after: u64,
    /// #CP1: how many clients were connected then, accepted ones that wait for their turn included.
    pub clients_before: u64,
    /// #CP2: the same when it was answered.
    pub clients_after: u64,
}

impl Record {
    /// T: how long the request took, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.answered_ns.saturating_sub(self.came_ns) as f64 / 1e9
    }

    /// #B: how many blocks the whole server has begun meanwhile.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks_after.saturating_sub(self.blocks_before)
    }

    /// TP: how many blocks the whole server has begun in a second meanwhile.
    #[must_use]
    pub fn blocks_per_second(&self) -> f64 {
        self.blocks() as f64 / self.seconds()
    }

    /// #CP: how many clients were connected, by the mean of both moments.
    #[must_use]
    pub fn clients(&self) -> f64 {
        (self.clients_before + self.clients_after) as f64 / 2.0
    }
}

/// Six numbers, in the form in which processes share them. The time of the answer is written last,
/// and is never 0 then.
type Row = [AtomicU64; 6];

/// The shared counters of all tasks, on a cache line of their own.
#[derive(Default)]
#[repr(C, align(128))]
struct Counts {
    blocks: AtomicU64,
    clients: AtomicU64,
    /// Rows that were taken, or would have been if there were more.
    rows: AtomicU64,
}

struct Table {
    counts: &'static Counts,
    rows: &'static [Row],
    /// When it was made, in nanoseconds of the monotonic clock.
    start: u64,
}

static TABLE: OnceLock<Table> = OnceLock::new();

/// Has up to `limit` requests recorded from now on, by this process and the children that it forks
/// later. To be called before a connection is accepted; a second call does nothing.
///
/// # Errors
///
/// When there is no memory for so many.
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
    // SAFETY: the rows follow the counts within the mapping, aligned to 128 bytes; for the rest, as
    // above.
    let rows = unsafe {
        let first: NonNull<Row> = memory.add(size_of::<Counts>()).cast();
        slice::from_raw_parts(first.as_ptr(), limit)
    };
    // A request shall not pay for a page.
    for row in rows.iter().step_by(4096 / size_of::<Row>()).chain(rows.last()) {
        row[0].store(0, Ordering::Relaxed);
    }
    let _ = TABLE.set(Table { counts, rows, start: now() });
    Ok(())
}

/// The requests that have been answered until now, in the order of their answers, and how many
/// found no place.
#[must_use]
pub fn records() -> (Vec<Record>, u64) {
    let Some(table) = TABLE.get() else { return Default::default() };
    let taken = table.counts.rows.load(Ordering::Acquire);
    let kept = table.rows.len().min(usize::try_from(taken).unwrap_or(usize::MAX));
    let mut records: Vec<Record> = table.rows[..kept].iter().filter_map(read).collect();
    records.sort_by_key(|record| record.answered_ns);
    (records, taken - kept as u64)
}

/// `None` for a row that is being written, or of a process that died as it wrote it.
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

/// Counts a block, which begins.
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
    /// The moment `now`, which has just come. `None` where nothing is recorded.
    pub(super) fn at(now: u64) -> Option<Self> {
        let table = TABLE.get()?;
        Some(Self {
            time: now.saturating_sub(table.start),
            blocks: table.counts.blocks.load(Ordering::Relaxed),
            clients: table.counts.clients.load(Ordering::Relaxed),
        })
    }

    /// Records a request that came then, and was answered at `answered`.
    pub(super) fn add_until(self, answered: Self) {
        if let Some(table) = TABLE.get() {
            table.add(self, answered);
        }
    }
}

/// Counts a client that is connected.
pub(super) fn client_came() {
    if let Some(table) = TABLE.get() {
        table.counts.clients.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a client that is connected no more.
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
