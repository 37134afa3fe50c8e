//! What it costs to wake one of many user-level threads, beside a bare loop that touches the same
//! memory.
//!
//! ```text
//!   a ring in random order:   thread 7 ─wakes─▶ thread 91 ─▶ thread 3 ─▶ …      64 tokens go round
//! ```
//!
//! `cargo bench -p duality-runtime --bench wakes [-- THREADS…]`, pinned to one processor (taskset(1)).
//! It prints a table: for each number of threads, nanoseconds for each wake (the median of seven runs
//! that alternate with runs of the floor, least and greatest in brackets), their ratio, and memory.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::{env, fmt, ptr};

use duality_runtime::event_loop::{self, EventLoop, Waiting};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::time::{ClockId, clock_gettime};

/// Usable bytes of each stack: one page is touched.
const STACK: usize = 16 * 1024;
const TOKENS: usize = 64;
const RUNS: usize = 7;

fn main() {
    let sizes: Vec<usize> = env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![100, 1_000, 10_000, 100_000, 1_000_000] } else { sizes };
    for threads in sizes {
        measure(threads);
    }
}

struct Ring {
    /// Wakes that are left in this run.
    left: AtomicU64,
    ended: AtomicU64,
    done: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
    /// Who is woken by whom.
    order: Vec<u32>,
    /// Whom the last token wakes.
    root: Mutex<Option<Waker>>,
}

fn measure(threads: usize) {
    let ring = Arc::new(Ring {
        left: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        done: AtomicU64::new(0),
        root: Mutex::new(None),
        wakers: Mutex::new(Vec::with_capacity(threads)),
        order: random_ring(threads),
    });
    let waiting = Waiting::Park { stack_size: STACK };
    let poller = duality_poller::Kind::Epoll.open().unwrap();
    let mut event_loop = EventLoop::new(poller, waiting).unwrap();
    let before = resident();
    event_loop.run(async move {
        let begin = cpu_time();
        for index in 0..threads {
            event_loop::reserve().unwrap().spawn(Box::pin(member(index, ring.clone())));
        }
        // Each registers, then is woken once to learn whom to wake.
        duality_runtime::task::yield_now().await;
        let wakers = ring.wakers.lock().unwrap().clone();
        assert_eq!(wakers.len(), threads);
        wakers.iter().for_each(Waker::wake_by_ref);
        duality_runtime::task::yield_now().await;
        let spawned = (cpu_time() - begin) / threads as f64;
        let memory = (resident() - before) / threads;
        let wakes = (threads as u64 * 2).max(1_000_000);
        let mut floor = Floor::new(threads, &ring.order);
        let (mut times, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let begin = cpu_time();
            round(&ring, &wakers[..TOKENS], wakes).await;
            times.push((cpu_time() - begin) / wakes as f64);
            let begin = cpu_time();
            floor.run(wakes);
            floors.push((cpu_time() - begin) / wakes as f64);
        }
        let time = Spread::of(times);
        let floor = Spread::of(floors);
        println!(
            "| {threads:>9} | {time} | {floor} | {:.2} | {spawned:.0} | {memory} |",
            time.median / floor.median
        );
        ring.done.store(1, Ordering::Relaxed);
        wakers.iter().for_each(Waker::wake_by_ref);
        while ring.ended.load(Ordering::Relaxed) < threads as u64 {
            duality_runtime::task::yield_now().await;
        }
    });
}

struct Spread {
    least: f64,
    median: f64,
    greatest: f64,
}

impl Spread {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let middle = times.len() / 2;
        Self { least: times[0], median: times[middle], greatest: times[times.len() - 1] }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.1} [{:.1} to {:.1}]", self.median, self.least, self.greatest)
    }
}

/// The processor time of this kernel thread in nanoseconds: others may use the machine.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The same memory in the same layout, and nothing but touching it: for each thread a line of a table,
/// the highest lines of a page of its own, and an allocated record.
struct Floor {
    table: Vec<Line>,
    stacks: *mut u8,
    records: Vec<*mut Record>,
    tokens: VecDeque<u32>,
}

#[repr(align(64))]
#[derive(Clone, Default)]
struct Line {
    queued: u64,
    stack: usize,
}

/// As large as the future of a thread.
struct Record {
    next: u32,
    _rest: [u64; 6],
}

const STRIDE: usize = STACK + 2 * 4096;

impl Floor {
    fn new(threads: usize, order: &[u32]) -> Self {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping aliases nothing.
        let stacks = unsafe {
            let stacks = mmap_anonymous(ptr::null_mut(), threads * STRIDE, access, flags).unwrap();
            madvise(stacks, threads * STRIDE, Advice::LinuxNoHugepage).unwrap();
            stacks.cast::<u8>()
        };
        let mut table = vec![Line::default(); threads];
        for (index, line) in table.iter_mut().enumerate() {
            line.stack = (index + 1) * STRIDE;
        }
        let records = order
            .iter()
            .map(|next| Box::into_raw(Box::new(Record { next: *next, _rest: [0; 6] })))
            .collect();
        let mut floor = Self { table, stacks, records, tokens: VecDeque::new() };
        floor.tokens.extend(0..TOKENS as u32);
        for index in 0..threads {
            floor.touch(index);
        }
        floor
    }

    #[inline(always)]
    fn touch(&mut self, index: usize) -> u32 {
        let line = &mut self.table[index];
        line.queued = 0;
        let top = self.stacks.wrapping_add(line.stack);
        // SAFETY: the lines are at the top of this thread's part of the mapping.
        unsafe {
            for line in 1..=STACK_LINES {
                let word = top.wrapping_sub(64 * line).cast::<u64>();
                word.write_volatile(word.read_volatile() + 1);
            }
            let record = top.wrapping_sub(8).cast::<*mut Record>();
            if (*record).is_null() {
                *record = self.records[index];
            }
            (**record).next
        }
    }

    fn run(&mut self, wakes: u64) {
        for _ in 0..wakes {
            let index = self.tokens.pop_front().unwrap() as usize;
            let next = self.touch(index);
            let line = &mut self.table[next as usize];
            if line.queued == 0 {
                line.queued = 1;
                self.tokens.push_back(next);
            }
        }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        for record in &self.records {
            // SAFETY: it came from a box, and is used no more.
            drop(unsafe { Box::from_raw(*record) });
        }
        // SAFETY: the mapping is its own.
        unsafe { munmap(self.stacks.cast(), self.table.len() * STRIDE).unwrap() };
    }
}

/// How many lines at the top of its stack a thread touches when it is woken and waits again.
const STACK_LINES: usize = 6;

/// Sends the tokens round until so many wakes are done.
async fn round(ring: &Ring, first: &[Waker], wakes: u64) {
    let mut begun = false;
    poll_fn(|context| {
        if begun && ring.left.load(Ordering::Relaxed) == 0 {
            return Poll::Ready(());
        }
        if !begun {
            begun = true;
            ring.left.store(wakes, Ordering::Relaxed);
            first.iter().for_each(Waker::wake_by_ref);
        }
        *ring.root.lock().unwrap() = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

async fn member(index: usize, ring: Arc<Ring>) {
    let mut next: Option<Waker> = None;
    let mut registered = false;
    poll_fn(|context: &mut Context<'_>| {
        if index == 50 && env::var_os("DEPTH").is_some() {
            let here = (&raw const context).addr();
            eprintln!("depth {} future {}", here.next_multiple_of(4096) - here, size_of_val(&next));
        }
        if let Some(next) = &next {
            let left = ring.left.load(Ordering::Relaxed);
            if left > 0 {
                ring.left.store(left - 1, Ordering::Relaxed);
                if left == 1 {
                    ring.root.lock().unwrap().take().unwrap().wake();
                } else {
                    next.wake_by_ref();
                }
            } else if ring.done.load(Ordering::Relaxed) == 1 {
                return Poll::Ready(());
            }
        } else if registered {
            next = Some(ring.wakers.lock().unwrap()[ring.order[index] as usize].clone());
        } else {
            ring.wakers.lock().unwrap().push(context.waker().clone());
            registered = true;
        }
        Poll::Pending
    })
    .await;
    ring.ended.fetch_add(1, Ordering::Relaxed);
}

/// A permutation that is one cycle.
fn random_ring(length: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..length as u32).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // Sattolo's shuffle.
    for index in (1..length).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(index, (state % index as u64) as usize);
    }
    order
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}
