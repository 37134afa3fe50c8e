//! Planted faults of programs with kernel threads. Each must be found within a thousand seeds.

use std::collections::VecDeque;
use std::io::Read as _;
use std::sync::{Arc, PoisonError};

use duality_runtime::locks::{Condvar, Mutex, MutexGuard};
use duality_runtime::task::thread;
use duality_runtime::time::{Duration, sleep};
use duality_runtime::{block_on, drain};
use duality_simulate::{Faults, seeds};

const STACK: thread::ThreadStack = thread::ThreadStack::fixed(64 << 10, "a planted thread");

fn lock<T: Send>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program under seeds until one fails, and that one has been made small. Returns why.
fn found(program: fn() -> Result<(), String>, drains: bool, faults: Faults) -> String {
    let outcome = seeds(0..1000).once().faults(faults).try_run(move |net| async move {
        let host = net.program("program", program);
        if drains {
            sleep(Duration::from_millis(10) + net.draw_time(Duration::from_millis(100))).await;
            host.drain();
        }
        host.ended().await
    });
    let failure = outcome.expect_err("some seed finds it");
    assert!(failure.shrunk.is_some(), "it is made small");
    failure.why
}

fn start(body: impl FnOnce() + Send + 'static) {
    thread::start(STACK, Box::new(body)).expect("a simulated host has room for a thread");
}

/// A queue between threads, and how many of its jobs are done.
#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<u32>>,
    is_closed: Mutex<bool>,
    added: Condvar,
    done: Mutex<u32>,
    one_is_done: Condvar,
}

impl Queue {
    fn put(&self, job: u32) {
        lock(&self.jobs).push_back(job);
        self.added.notify_one();
    }

    fn finish(&self) {
        *lock(&self.done) += 1;
        self.one_is_done.notify_all();
    }

    /// Waits until so many jobs are done, for an hour at most.
    fn await_done(&self, count: u32) -> Result<(), String> {
        let hour = Duration::from_secs(3600);
        let waited =
            self.one_is_done.wait_timeout_while(lock(&self.done), hour, |done| *done < count);
        let done = *waited.unwrap_or_else(PoisonError::into_inner).0;
        if done == count { Ok(()) } else { Err(format!("{done} of {count} jobs are done")) }
    }
}

/// The worker lets the lock go between its look and its wait.
fn lost_wake_up() -> Result<(), String> {
    let queue = Arc::<Queue>::default();
    let own = queue.clone();
    start(move || {
        loop {
            let job = lock(&own.jobs).pop_front();
            match job {
                Some(_) => own.finish(),
                None => drop(own.added.wait(lock(&own.jobs))),
            }
        }
    });
    for job in 1..=20 {
        queue.put(job);
        queue.await_done(job)?;
    }
    Ok(())
}

#[test]
fn a_wake_up_that_is_lost_between_threads() {
    let why = found(lost_wake_up, false, Faults::NONE);
    assert!(why.contains("jobs are done"), "{why}");
}

/// Two threads take two locks, each in its own order.
fn lock_order() -> Result<(), String> {
    let locks = Arc::new([Mutex::new(0), Mutex::new(0)]);
    let queue = Arc::<Queue>::default();
    for [first, second] in [[0, 1], [1, 0]] {
        let (locks, queue) = (locks.clone(), queue.clone());
        start(move || {
            for _ in 0..10 {
                let mut outer = lock(&locks[first]);
                *lock(&locks[second]) += 1;
                *outer += 1;
            }
            queue.finish();
        });
    }
    let done = queue.one_is_done.wait_while(lock(&queue.done), |done| *done < 2);
    drop(done);
    Ok(())
}

#[test]
fn locks_that_are_taken_in_two_orders() {
    let why = found(lock_order, false, Faults::NONE);
    let told = why.contains("nothing can happen") && why.matches(": a lock").count() == 2;
    assert!(told, "{why}");
}

/// A place for a client is given back only if its work succeeds.
fn kept_slot() -> Result<(), String> {
    let queue = Arc::<Queue>::default();
    let slots = Arc::new((Mutex::new(2_u32), Condvar::new()));
    for job in 1..=20 {
        let (free, freed) = &*slots;
        let hour = Duration::from_secs(3600);
        let waited = freed.wait_timeout_while(lock(free), hour, |free| *free == 0);
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *free == 0 {
            return Err(format!("no slot is left for job {job}"));
        }
        *free -= 1;
        drop(free);
        let (slots, own) = (slots.clone(), queue.clone());
        start(move || {
            // Another thread is ahead: the client has gone.
            let is_first = *lock(&own.done) + 1 == job;
            own.finish();
            if is_first {
                *lock(&slots.0) += 1;
                slots.1.notify_one();
            }
        });
    }
    Ok(())
}

#[test]
fn a_slot_that_a_thread_keeps() {
    let why = found(kept_slot, false, Faults::NONE);
    assert!(why.contains("no slot is left"), "{why}");
}

/// At a drain, the worker leaves what is in its queue.
fn dropped_queue() -> Result<(), String> {
    let queue = Arc::<Queue>::default();
    let own = queue.clone();
    start(move || {
        loop {
            let jobs = own.added.wait_timeout(lock(&own.jobs), Duration::from_millis(7));
            let job = jobs.unwrap_or_else(PoisonError::into_inner).0.pop_front();
            if *lock(&own.is_closed) {
                return;
            }
            if job.is_some() {
                own.finish();
            }
        }
    });
    let mut count = 0;
    while !drain::requested() {
        count += 1;
        queue.put(count);
        block_on(sleep(Duration::from_millis(5)));
    }
    *lock(&queue.is_closed) = true;
    queue.await_done(count)
}

#[test]
fn a_stage_that_drops_its_queue_at_a_drain() {
    let why = found(dropped_queue, true, Faults::ALL);
    assert!(why.contains("jobs are done"), "{why}");
}

/// The same threads without a fault pass, and twice the same.
#[test]
fn threads_without_a_fault_pass() {
    fn program() -> Result<(), String> {
        let queue = Arc::<Queue>::default();
        let own = queue.clone();
        start(move || {
            loop {
                let jobs = own.added.wait_while(lock(&own.jobs), |jobs| jobs.is_empty());
                jobs.unwrap_or_else(PoisonError::into_inner).pop_front();
                own.finish();
            }
        });
        for job in 1..=20 {
            queue.put(job);
            queue.await_done(job)?;
        }
        Ok(())
    }
    let tally = seeds(0..100).run(|net| async move {
        let host = net.program("program", program);
        host.ended().await
    });
    assert!(tally.counts.preemptions > 0, "{}", tally.counts);
}

/// What a thread of a host does in the kernel, the simulation does not see.
fn asleep(program: fn() -> Result<(), String>) -> String {
    let outcome = seeds(0..1).unshrunk().once().try_run(move |net| async move {
        let host = net.program("program", move || {
            start(move || drop(program()));
            block_on(sleep(Duration::from_secs(3600)));
            Ok::<(), String>(())
        });
        host.ended().await
    });
    outcome.expect_err("it sleeps for ever").why
}

#[test]
fn a_thread_that_sleeps_in_the_kernel_is_named() {
    for (program, call) in [
        (reads_for_ever as fn() -> Result<(), String>, "read(2)"),
        (waits_for_ever, "futex(2), as at a lock of std"),
    ] {
        let why = asleep(program);
        let begins = "program: thread 1 sleeps in the kernel, where no simulation sees it, in ";
        assert!(why.starts_with(begins) && why.contains(call), "{why}");
        assert!(why.ends_with(": use the runtime's locks and waits"), "{why}");
    }
}

fn reads_for_ever() -> Result<(), String> {
    let (mut reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
    let read = reader.read(&mut [0]);
    drop(writer);
    read.map(drop).map_err(|error| error.to_string())
}

fn waits_for_ever() -> Result<(), String> {
    let mutex = std::sync::Mutex::new(());
    let never = std::sync::Condvar::new();
    let locked = mutex.lock().map_err(|error| error.to_string())?;
    drop(never.wait(locked));
    Ok(())
}
