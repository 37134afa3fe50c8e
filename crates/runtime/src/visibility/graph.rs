//! The blocking graph: the places where tasks may wait, and their work in between.
//!
//! ```text
//!   begin ──▶ [ http/mod.rs:185 stage http: request ] ──▶ [ http/wire.rs:76 read ] ──▶ … ──▶ end
//!             a node: an operation that may wait,          an edge: how often, how long, how much
//!             or a stage boundary, by the line that        processor time from the end of one node
//!             calls it; how long tasks were in it          to the beginning of the next
//! ```
//!
//! A task passes a node whenever it calls the node's operation, with or without a wait. An event
//! loop that finds a request already there does not wait, but a kernel thread may wait. So the
//! graph of a service is the same under all architectures. The times that tasks spent in the nodes
//! show the difference.
//!
//! Each task has a [`Trace`], which belongs to this kernel thread while the task runs on it. The
//! sums are in one table that child processes share. Without a table, an operation costs a load and
//! a branch.
//!
//! Source: von Behren et al. 2003 (*Capriccio*, SOSP), section 4.1. Capriccio finds the nodes by
//! unwinding stacks.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use super::label::Names;
use crate::pages;

/// More nodes than any service has. A node without a place is left out.
const NODES: usize = 256;
/// And edges.
const EDGES: usize = 4096;

/// The numbers of the first two nodes.
const BEGIN: u16 = 0;
const END: u16 = 1;

thread_local! {
    /// The trace of the task that runs on this kernel thread.
    static CURRENT: Cell<Option<Box<Trace>>> = const { Cell::new(None) };
    /// The numbers of nodes that this kernel thread has passed.
    static KNOWN: RefCell<HashMap<(usize, &'static str), Option<u16>>> = RefCell::default();
}

#[repr(C)]
struct Table {
    names: Names<NODES>,
    nodes: [Sums; NODES],
    edges: [EdgeSums; EDGES],
}

#[repr(C)]
struct Sums {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

#[repr(C)]
struct EdgeSums {
    /// The two nodes, as a number that is not 0. 0 means a free place.
    ends: AtomicU64,
    count: AtomicU64,
    nanoseconds: AtomicU64,
    processor: AtomicU64,
}

static TABLE: OnceLock<&'static Table> = OnceLock::new();

/// Begins the graph of all tasks, of this process and of the children that it forks later.
///
/// # Errors
///
/// If there is no memory for the graph.
pub fn prepare_graph() -> io::Result<()> {
    if TABLE.get().is_some() {
        return Ok(());
    }
    let memory = pages::share(size_of::<Table>())?.cast::<Table>();
    // SAFETY: the mapping is never unmapped, is aligned to a page and long enough. All zeroes are a
    // valid table, which consists of atomic integers.
    let table: &'static Table = unsafe { memory.as_ref() };
    for name in ["begin", "end"] {
        table.names.find_or_add(name);
    }
    let _ = TABLE.set(table);
    Ok(())
}

/// A place where tasks may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The line that calls the operation, and the operation's name, such as `services/echo.rs:31
    /// read`. Otherwise `begin` or `end`.
    pub name: String,
    /// The number of times that tasks came here.
    pub count: u64,
    /// The total time that tasks were here.
    pub waited_ns: u64,
}

/// The work of tasks between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The index of the node that the tasks left.
    pub from: usize,
    /// The index of the node that the tasks came to.
    pub to: usize,
    /// How often.
    pub count: u64,
    /// The total time between the nodes.
    pub elapsed_ns: u64,
    /// The total processor time between the nodes.
    pub cpu_ns: u64,
}

/// The current graph: nodes and edges, in the order of their names.
#[must_use]
pub fn graph() -> (Vec<Node>, Vec<Edge>) {
    let Some(table) = TABLE.get() else { return Default::default() };
    let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
    // A node that only the architecture has reached has a name but no figures.
    let is_passed = |index: &usize| read(&table.nodes[*index].count) > 0;
    let mut named: Vec<(String, usize)> = (0..NODES)
        .filter(is_passed)
        .filter_map(|index| Some((table.names.at(index)?, index)))
        .collect();
    named.sort();
    let place = |index: usize| named.iter().position(|(_, other)| *other == index);
    let edges = table.edges.iter().filter_map(|edge| {
        let ends = read(&edge.ends).checked_sub(1)?;
        Some(Edge {
            from: place((ends >> 16) as usize)?,
            to: place((ends & 0xFFFF) as usize)?,
            count: read(&edge.count),
            elapsed_ns: read(&edge.nanoseconds),
            cpu_ns: read(&edge.processor),
        })
    });
    let mut edges: Vec<Edge> = edges.collect();
    edges.sort_by_key(|edge| (edge.from, edge.to));
    let nodes = named.iter().map(|(name, index)| {
        let Sums { count, nanoseconds } = &table.nodes[*index];
        Node { name: name.clone(), count: read(count), waited_ns: read(nanoseconds) }
    });
    (nodes.collect(), edges)
}

/// The last node of a task.
#[derive(Debug)]
pub(crate) struct Trace {
    at: u16,
    /// The times at which the task came to the node, and went on.
    came: u64,
    left: u64,
    /// The processor time that the task has used since then, up to its last turn. Then the kernel
    /// thread's clock at the beginning of this turn.
    used: u64,
    turn: u64,
}

impl Trace {
    /// The trace of a task that begins. `None` if no graph is drawn.
    #[inline]
    pub(crate) fn begins() -> Option<Box<Self>> {
        TABLE.get().map(|_| {
            let now = clock(ClockId::Monotonic);
            Box::new(Self { at: BEGIN, came: now, left: 0, used: 0, turn: 0 })
        })
    }

    /// The trace of a task that the running task starts. `None` if the running task has none, like
    /// tasks of architectures.
    #[inline]
    pub(crate) fn spawned() -> Option<Box<Self>> {
        TABLE.get()?;
        let mut is_traced = false;
        with_current(|_| is_traced = true);
        is_traced.then(Self::begins).flatten()
    }

    fn arrive(&mut self, table: &Table, node: u16) {
        let (now, processor) = (clock(ClockId::Monotonic), clock(ClockId::ThreadCPUTime));
        // An operation that was dropped during its wait has left its node only now.
        let left = if self.left == 0 { now } else { self.left };
        let add = |sum: &AtomicU64, number: u64| sum.fetch_add(number, Ordering::Relaxed);
        let from = &table.nodes[usize::from(self.at)];
        add(&from.count, 1);
        add(&from.nanoseconds, left.saturating_sub(self.came));
        if let Some(edge) = table.edge(self.at, node) {
            add(&edge.count, 1);
            add(&edge.nanoseconds, now.saturating_sub(left));
            add(&edge.processor, self.used + processor.saturating_sub(self.turn));
        }
        (self.at, self.came, self.left) = (node, now, 0);
    }

    fn depart(&mut self) {
        self.left = clock(ClockId::Monotonic);
        (self.used, self.turn) = (0, clock(ClockId::ThreadCPUTime));
    }
}

impl Table {
    /// The sums of an edge. `None` if there is no room for more.
    fn edge(&self, from: u16, to: u16) -> Option<&EdgeSums> {
        let ends = (u64::from(from) << 16 | u64::from(to)) + 1;
        let start = (ends.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        (0..EDGES).map(|step| &self.edges[(start + step) % EDGES]).find(|edge| {
            let relaxed = Ordering::Relaxed;
            match edge.ends.compare_exchange(0, ends, relaxed, relaxed) {
                Ok(_) => true,
                Err(taken) => taken == ends,
            }
        })
    }

    /// The number of a node.
    fn node(&self, location: &'static Location<'static>, kind: &str, name: &str) -> Option<u16> {
        let space = if name.is_empty() { "" } else { " " };
        let text = format!("{}:{} {kind}{space}{name}", short(location.file()), location.line());
        self.names.find_or_add(super::label::cut(&text)).map(|index| index as u16)
    }
}

/// The path of a source file without the part that all paths share: `services/http/mod.rs`.
fn short(file: &str) -> String {
    let file = file.rsplit_once("crates/").map_or(file, |(_, rest)| rest);
    file.replacen("/src/", "/", 1)
}

/// The running task comes to an operation of this kind that may wait. `location` is the place of
/// the call.
#[inline]
pub(crate) fn arrive(kind: &'static str, location: &'static Location<'static>) {
    arrive_named(kind, "", location);
}

/// Notes an operation that is noted again at each poll.
#[inline]
pub(crate) fn arrive_again(kind: &'static str, location: &'static Location<'static>) {
    if let Some(table) = TABLE.get()
        && let Some(node) = known(table, kind, "", location)
    {
        with_current(|trace| {
            if trace.at != node || trace.left != 0 {
                trace.arrive(table, node);
            }
        });
    }
}

/// Notes a stage by its name.
#[inline]
pub(crate) fn arrive_named(
    kind: &'static str,
    name: &'static str,
    location: &'static Location<'static>,
) {
    if let Some(table) = TABLE.get() {
        note_arrival(table, kind, name, location);
    }
}

#[cold]
fn note_arrival(
    table: &Table,
    kind: &'static str,
    name: &'static str,
    location: &'static Location<'static>,
) {
    if let Some(node) = known(table, kind, name, location) {
        with_current(|trace| trace.arrive(table, node));
    }
}

#[cold]
fn known(
    table: &Table,
    kind: &'static str,
    name: &'static str,
    location: &'static Location<'static>,
) -> Option<u16> {
    let key = (std::ptr::from_ref(location).addr(), kind);
    KNOWN.with_borrow_mut(|known| {
        *known.entry(key).or_insert_with(|| table.node(location, kind, name))
    })
}

/// Notes that the running task has done its operation, or a part of it.
#[inline]
pub(crate) fn depart() {
    if TABLE.get().is_some() {
        with_current(Trace::depart);
    }
}

fn with_current(change: impl FnOnce(&mut Trace)) {
    let mut trace = CURRENT.take();
    if let Some(trace) = &mut trace {
        change(trace);
    }
    CURRENT.set(trace);
}

/// Has the task of this trace run on this kernel thread, until the result is dropped.
#[inline]
pub(crate) fn run(trace: &mut Option<Box<Trace>>) -> Option<Turn<'_>> {
    trace.is_some().then(|| {
        let outer = CURRENT.take();
        come_back(trace.take());
        Turn { trace, outer }
    })
}

/// See [`run`].
pub(crate) struct Turn<'t> {
    trace: &'t mut Option<Box<Trace>>,
    outer: Option<Box<Trace>>,
}

impl Turn<'_> {
    /// The task has ended.
    #[cold]
    pub(crate) fn ends(&self) {
        if let Some(table) = TABLE.get() {
            with_current(|trace| {
                trace.arrive(table, END);
                table.nodes[usize::from(END)].count.fetch_add(1, Ordering::Relaxed);
            });
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.trace = leave();
        CURRENT.set(self.outer.take());
    }
}

/// The running task, a fiber, gives its kernel thread to others. The caller keeps the task's trace
/// until [`come_back`].
#[inline]
pub(crate) fn leave() -> Option<Box<Trace>> {
    TABLE.get()?;
    let mut trace = CURRENT.take();
    if let Some(trace) = &mut trace {
        trace.used += clock(ClockId::ThreadCPUTime).saturating_sub(trace.turn);
    }
    trace
}

/// See [`leave`].
#[inline]
pub(crate) fn come_back(trace: Option<Box<Trace>>) {
    if let Some(mut trace) = trace {
        trace.turn = clock(ClockId::ThreadCPUTime);
        if trace.at == BEGIN && trace.left == 0 {
            trace.depart();
        }
        CURRENT.set(Some(trace));
    }
}

fn clock(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
