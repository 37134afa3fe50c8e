//! Measures the cost of a parked task. Starts many state machines on one event loop, lets each
//! wait, and wakes all.
//!
//! ```text
//! cargo run --release -p duality-runtime --example parked_tasks -- 10000000 notify
//! ```
//!
//! Each task waits for one of three things. `notify` is a place in the queue of one `Notify`, and
//! `timer` is a deadline. `joinable` is `notify` for tasks of `task::spawn`, so that another task
//! could wait for their results. Memory is the growth of this process's resident set
//! (`/proc/self/statm`), so what an allocator rounds up counts as well. Kerneis and Chroboczek had
//! room for 50,190,000 threads of CPC in 4 GB: 86 bytes for each.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "what it prints is its result")]

use std::future::Future;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use duality_poller::Kind;
use duality_runtime::event_loop::{self, EventLoop, LoopWorld};
use duality_runtime::sync::Notify;
use duality_runtime::task;
use duality_runtime::time::{Duration, Instant, sleep};

static GO: Notify = Notify::new();
static PARKED: AtomicUsize = AtomicUsize::new(0);
static WOKEN: AtomicUsize = AtomicUsize::new(0);

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let tasks = arguments.next().map_or(Ok(10_000_000), |text| text.parse());
    let wait = arguments.next().unwrap_or_else(|| "notify".to_owned());
    let measurement = match (tasks, wait.as_str()) {
        (Ok(tasks), "notify") => measure(tasks, || detach(notified())),
        (Ok(tasks), "joinable") => measure(tasks, || {
            drop(task::spawn(notified()).expect("a state machine needs no stack"));
            size_of_val(&notified())
        }),
        (Ok(tasks), "timer") => {
            // Time enough for all to park, at a microsecond for each.
            let long = Duration::from_micros(tasks as u64).max(Duration::from_secs(1));
            measure(tasks, move || detach(slept(long)))
        }
        _ => {
            eprintln!("parked_tasks: give a number of tasks, and `notify`, `timer` or `joinable`");
            return ExitCode::from(2);
        }
    };
    measurement.print();
    ExitCode::SUCCESS
}

async fn notified() {
    PARKED.fetch_add(1, Ordering::Relaxed);
    GO.notified().await;
    WOKEN.fetch_add(1, Ordering::Relaxed);
}

async fn slept(long: Duration) {
    PARKED.fetch_add(1, Ordering::Relaxed);
    sleep(long).await;
    WOKEN.fetch_add(1, Ordering::Relaxed);
}

/// Starts a task as the architectures do, and tells the size of its state.
fn detach(task: impl Future<Output = ()> + Send + 'static) -> usize {
    let size = size_of_val(&task);
    event_loop::reserve().expect("a state machine needs no stack").spawn(Box::pin(task));
    size
}

struct Measurement {
    tasks: usize,
    /// Bytes of one state machine.
    state: usize,
    /// Bytes in memory before, with all spawned, and with all parked.
    resident: [usize; 3],
    /// The time to spawn and park all tasks.
    took: [Duration; 2],
}

fn measure(tasks: usize, start: impl Fn() -> usize + 'static) -> Measurement {
    let poller = Kind::Epoll.open().expect("a descriptor for epoll");
    let opened = EventLoop::new(poller, LoopWorld::Suspend);
    opened.expect("a descriptor for the loop").run(async move {
        let (begin, before) = (Instant::now(), resident());
        let state = (0..tasks).fold(0, |_, _| start());
        let (spawned, all_spawned) = (resident(), Instant::now());
        until(&PARKED, tasks).await;
        let (parked, all_parked) = (resident(), Instant::now());
        assert_eq!(WOKEN.load(Ordering::Relaxed), 0, "all are parked at the same time");
        GO.notify_waiters();
        until(&WOKEN, tasks).await;
        let took = [all_spawned - begin, all_parked - all_spawned];
        Measurement { tasks, state, resident: [before, spawned, parked], took }
    })
}

/// Lets the others have their turns until they have counted to `all`.
async fn until(counter: &AtomicUsize, all: usize) {
    while counter.load(Ordering::Relaxed) < all {
        task::yield_now().await;
    }
}

impl Measurement {
    fn print(&self) {
        let Self { tasks, state, resident: [before, spawned, parked], took } = *self;
        let each = |bytes: usize| bytes as f64 / tasks as f64;
        println!("{tasks} tasks parked, {:.1} bytes each:", each(parked - before));
        println!(
            "    {:6.1}  to spawn it: its state machine ({state} bytes), its slot, its place in the queue of those that are ready",
            each(spawned - before)
        );
        println!(
            "    {:6.1}  to park it: its place among the waiters, or its timer",
            each(parked - spawned)
        );
        let [spawn, park] = took.map(|time| time.as_nanos() as f64 / tasks as f64);
        println!("all were woken and have run; {spawn:.0} ns each to spawn, {park:.0} to park");
        println!("the most that was in memory: {} MB", peak() / 1_000_000);
    }
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    resident.expect("the second field is a number of pages") * rustix::param::page_size()
}

/// The most that `resident` has ever been.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.expect("Linux tells the peak in kB") * 1024
}
