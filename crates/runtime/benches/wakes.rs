//! Measures the cost to wake one of many user-level threads, beside a bare loop that touches the
//! same memory.
//!
//! ```text
//!   a ring in random order:   thread 7 ─wakes─▶ thread 91 ─▶ thread 3 ─▶ …      64 tokens go round
//! ```
//!
//! `cargo bench -p duality-runtime --bench wakes [-- THREADS…]`, pinned to one processor
//! (taskset(1)), prints a table. For each number of threads it has the processor time for each wake
//! in nanoseconds. That is the median of seven runs, with the least and the greatest in brackets.
//! Beside it stands that of the *floor*, and the ratio of the two. The floor touches as many lines
//! of as many pages in the same order, and does nothing else. Another column is the *bare switch*:
//! fibers resumed from a queue without any runtime. All three run in turn, so that they meet the
//! same machine. A second table has the cost of a sleep, its timer and the switches. The bench is a
//! program of its own because what counts is the ratio.

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::{env, fmt, ptr};

use duality_fiber::{Fiber, StackPool};
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::task;
use duality_runtime::time::{Duration, Instant, sleep_until};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::time::{ClockId, clock_gettime};

/// Usable bytes of each stack: one page is touched.
const STACK: usize = 16 * 1024;
const TOKENS: usize = 64;
const RUNS: usize = 7;

fn main() {
    let sizes: Vec<usize> = env::args().filter_map(|argument| argument.parse().ok()).collect();
    println!("| threads | ns a wake | floor | ratio | bare switch | ns a spawn | bytes a thread |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let sizes = if sizes.is_empty() { vec![100, 1_000, 10_000, 100_000, 1_000_000] } else { sizes };
    sizes.iter().for_each(|&threads| measure(threads));
    println!("\n| threads | ns a sleep |\n| ---: | ---: |");
    sizes.iter().for_each(|&threads| measure_sleeps(threads));
}

/// Has all threads sleep again and again for so long that a thousand of them wake in each
/// millisecond.
fn measure_sleeps(threads: usize) {
    let poller = duality_poller::Kind::Epoll.open().unwrap();
    let mut event_loop = EventLoop::new(poller, LoopWorld::Park { stack_size: STACK }).unwrap();
    event_loop.run(async move {
        // All are asleep for the first time before any wakes.
        let begin = Instant::now() + Duration::from_secs(1 + threads as u64 / 100_000);
        let end = begin + Duration::from_secs(3);
        let period = Duration::from_millis((threads as u64 / 1000).max(1));
        let (slept, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        for index in 0..threads {
            let (slept, ended) = (slept.clone(), ended.clone());
            let share = index * 61_803 % threads;
            let mut deadline = begin + period * share as u32 / threads as u32;
            let thread = async move {
                while deadline < end {
                    sleep_until(deadline).await;
                    slept.fetch_add(1, Ordering::Relaxed);
                    deadline += period;
                }
                ended.fetch_add(1, Ordering::Relaxed);
            };
            drop(task::spawn(thread).unwrap());
        }
        sleep_until(begin).await;
        let (before, from) = (slept.load(Ordering::Relaxed), cpu_time());
        sleep_until(end - period).await;
        let sleeps = slept.load(Ordering::Relaxed) - before;
        println!("| {threads} | {:.0} |", (cpu_time() - from) / sleeps as f64);
        while ended.load(Ordering::Relaxed) < threads as u64 {
            sleep_until(Instant::now() + Duration::from_millis(10)).await;
        }
    });
}

struct Ring {
    /// Wakes that remain in this run.
    left: AtomicU64,
    ended: AtomicU64,
    done: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
    /// The order in which threads wake each other.
    order: Vec<u32>,
    /// The thread that the last token wakes.
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
    let world = LoopWorld::Park { stack_size: STACK };
    let poller = duality_poller::Kind::Epoll.open().unwrap();
    let mut event_loop = EventLoop::new(poller, world).unwrap();
    let before = resident();
    event_loop.run(async move {
        let begin = cpu_time();
        for index in 0..threads {
            drop(task::spawn(member(index, ring.clone())).unwrap());
        }
        // Each thread registers. Then it is woken once to learn which thread to wake.
        task::yield_now().await;
        let wakers = ring.wakers.lock().unwrap().clone();
        assert_eq!(wakers.len(), threads);
        wakers.iter().for_each(Waker::wake_by_ref);
        task::yield_now().await;
        let spawned = (cpu_time() - begin) / threads as f64;
        let memory = (resident() - before) / threads;
        let wakes = (threads as u64 * 2).max(1_000_000);
        let mut floor = Floor::new(&ring.order);
        let mut bare = Bare::new(&ring.order);
        let (mut times, mut floors, mut bares) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let begin = cpu_time();
            round(&ring, &wakers[..TOKENS], wakes).await;
            times.push((cpu_time() - begin) / wakes as f64);
            let begin = cpu_time();
            floor.run(wakes);
            floors.push((cpu_time() - begin) / wakes as f64);
            let begin = cpu_time();
            bare.run(wakes);
            bares.push((cpu_time() - begin) / wakes as f64);
        }
        let (time, floor, bare) = (Spread::of(times), Spread::of(floors), Spread::of(bares));
        let ratio = time.median / floor.median;
        println!(
            "| {threads:>9} | {time} | {floor} | {ratio:.2} | {bare} | {spawned:.0} | {memory} |"
        );
        ring.done.store(1, Ordering::Relaxed);
        wakers.iter().for_each(Waker::wake_by_ref);
        while ring.ended.load(Ordering::Relaxed) < threads as u64 {
            task::yield_now().await;
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

/// Touches the same memory in the same layout, and does nothing else. Each thread has a line of a
/// table, and the highest lines of a page of its own. There it finds which thread to wake.
struct Floor {
    table: Vec<Line>,
    stacks: *mut u8,
    tokens: VecDeque<u32>,
}

#[repr(align(64))]
#[derive(Clone, Default)]
struct Line {
    queued: bool,
    /// From the start of the stacks to the end of this one.
    stack: usize,
}

/// Cache lines of its stack that a thread touches from its wake to its next wait, from the
/// assembly. Two are for the place where it was left and the calls from there, and one is its
/// future's.
const STACK_LINES: usize = 3;

/// The distance of the runtime's stacks: with a guard, and rounded up.
const STRIDE: usize = STACK + 2 * 4096;

impl Floor {
    fn new(order: &[u32]) -> Self {
        let length = order.len() * STRIDE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping aliases nothing.
        let stacks = unsafe { mmap_anonymous(ptr::null_mut(), length, access, flags).unwrap() };
        // SAFETY: it is the mapping just made.
        unsafe { madvise(stacks, length, Advice::LinuxNoHugepage).unwrap() };
        let table = (0..order.len())
            .map(|index| Line { queued: false, stack: (index + 1) * STRIDE - index % 16 * 64 })
            .collect();
        let tokens = (0..TOKENS as u32).collect();
        let mut floor = Self { table, stacks: stacks.cast(), tokens };
        for (index, next) in order.iter().enumerate() {
            // SAFETY: the word is in this thread's part of the mapping.
            unsafe { *floor.line(index, 1).add(1) = u64::from(*next) };
        }
        floor
    }

    /// The first word of a line, counted from the top of a stack.
    #[inline(always)]
    fn line(&mut self, index: usize, line: usize) -> *mut u64 {
        self.stacks.wrapping_add(self.table[index].stack - 64 * line).cast()
    }

    fn run(&mut self, wakes: u64) {
        for _ in 0..wakes {
            let index = self.tokens.pop_front().unwrap() as usize;
            self.table[index].queued = false;
            // SAFETY: the lines are in this thread's part of the mapping.
            let next = unsafe {
                for line in 1..=STACK_LINES {
                    let word = self.line(index, line);
                    word.write_volatile(word.read_volatile() + 1);
                }
                *self.line(index, 1).add(1) as u32
            };
            let queued = &mut self.table[next as usize].queued;
            if !std::mem::replace(queued, true) {
                self.tokens.push_back(next);
            }
        }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // SAFETY: the mapping is its own.
        unsafe { munmap(self.stacks.cast(), self.table.len() * STRIDE).unwrap() };
    }
}

/// Fibers that resume one another through a queue: the switch, without a runtime.
struct Bare {
    fibers: Vec<Fiber>,
    tokens: VecDeque<u32>,
    next: Rc<Cell<u32>>,
}

impl Bare {
    fn new(order: &[u32]) -> Self {
        let next = Rc::new(Cell::new(0));
        let mut pool = StackPool::new(STACK);
        let fiber = |&to: &u32| {
            let next = next.clone();
            let fiber = Fiber::new(pool.take().unwrap(), move || {
                loop {
                    duality_fiber::suspend();
                    next.set(to);
                }
            });
            fiber.resume();
            fiber
        };
        let fibers = order.iter().map(fiber).collect();
        Self { fibers, tokens: (0..TOKENS as u32).collect(), next }
    }

    fn run(&mut self, wakes: u64) {
        for _ in 0..wakes {
            let fiber = self.tokens.pop_front().unwrap();
            self.fibers[fiber as usize].resume();
            self.tokens.push_back(self.next.get());
        }
    }
}

/// Sends the tokens round until this many wakes are done.
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
    let own = own_waker().await;
    ring.wakers.lock().unwrap().push(own);
    task::woken().await;
    let next = ring.wakers.lock().unwrap()[ring.order[index] as usize].clone();
    loop {
        task::woken().await;
        let left = ring.left.load(Ordering::Relaxed);
        if left > 0 {
            ring.left.store(left - 1, Ordering::Relaxed);
            if left == 1 {
                ring.root.lock().unwrap().take().unwrap().wake();
            } else {
                next.wake_by_ref();
            }
        } else if ring.done.load(Ordering::Relaxed) == 1 {
            break;
        }
    }
    ring.ended.fetch_add(1, Ordering::Relaxed);
}

async fn own_waker() -> Waker {
    poll_fn(|context| Poll::Ready(context.waker().clone())).await
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
