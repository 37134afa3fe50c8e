//! What the kernel asks for the things that architectures use it for: a system call, an attempt that would block, a
//! registration with epoll, a switch to another kernel thread, a process.
//!
//! They are differences between architectures, and so measured without what all of them do: bytes move in none of
//! them, but for the one byte of a switch, whose two system calls are measured beside it and taken off.
//!
//! All times are the processor's, of this process and of its children: what others have of the processor meanwhile
//! would otherwise be larger than such a difference.

use std::cell::Cell;
use std::hint::{black_box, spin_loop};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use duality_architectures::common::children::Children;
use duality_architectures::usage;
use duality_poller::{Direction, Kind, Token};
use duality_runtime::block_on;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::net::{RecvFlags, recv};
use rustix::param::page_size;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, getppid, waitid};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::{Reading, Unit};

/// A system call that does next to nothing: getppid(2).
pub(crate) fn call(count: u64) -> io::Result<Reading> {
    time(count, || {
        black_box(getppid());
        Ok(())
    })
}

/// poll(2) of a connection on which bytes have come: what the block world asks before each operation under a deadline.
pub(crate) fn ask(count: u64) -> io::Result<Reading> {
    let (here, there) = connection()?;
    write(&there, b"x")?;
    let limit = Timespec::try_from(Duration::from_secs(1)).map_err(io::Error::other)?;
    time(count, || {
        poll(&mut [PollFd::from_borrowed_fd(here.as_fd(), PollFlags::IN)], Some(&limit))?;
        Ok(())
    })
}

/// recv(2) of a connection on which nothing has come.
pub(crate) fn in_vain(count: u64) -> io::Result<Reading> {
    let (here, _there) = connection()?;
    here.set_nonblocking(true)?;
    let mut buffer = [0; 256];
    time(count, || match recv(&here, &mut buffer, RecvFlags::empty()) {
        Err(Errno::WOULDBLOCK) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(io::Error::other("something came where nothing was sent")),
    })
}

/// A descriptor registered with epoll, until it is closed. What it costs to make and close it otherwise is taken off.
pub(crate) fn register(count: u64) -> io::Result<Reading> {
    let mut poller = Kind::Epoll.open()?;
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let alone = time(count, || {
        drop(black_box(eventfd(0, flags)?));
        Ok(())
    })?;
    let registered = time(count, || {
        let descriptor = eventfd(0, flags)?;
        poller.arm(descriptor.as_fd(), Token(0), Direction::Read)?;
        poller.forget(descriptor.as_fd(), Token(0));
        Ok(())
    })?;
    Ok(less(registered, alone))
}

/// A switch from one kernel thread to another of the same process, which waits to read from a pipe.
pub(crate) fn switch(count: u64) -> io::Result<Reading> {
    let [there, back] = [pipe()?, pipe()?];
    let calls = own_pipe(count, &there)?;
    let start = used();
    thread::scope(|scope| {
        scope.spawn(|| answer(count, &there.0, &back.1));
        round_trips(count, &there.1, &back.0)
    })?;
    Ok(less(since(start, trips(count) * 2), calls))
}

/// The same between two processes, each with an address space of its own.
pub(crate) fn process_switch(count: u64) -> io::Result<Reading> {
    let [there, back] = [pipe()?, pipe()?];
    let calls = own_pipe(count, &there)?;
    let start = used();
    let mut children = Children::default();
    children.start(|| drop(answer(count, &there.0, &back.1)))?;
    round_trips(count, &there.1, &back.0)?;
    // The child's time counts once it has been waited for.
    reap(&mut children)?;
    Ok(less(since(start, trips(count) * 2), calls))
}

/// A child process that runs a task which does nothing: made, run and reaped; without its page faults.
pub(crate) fn process(count: u64) -> io::Result<Reading> {
    let mut children = Children::default();
    let before = usage::of_this_process().page_faults;
    let processes = time(count, || {
        children.start(|| block_on(async {}))?;
        reap(&mut children)
    })?;
    let faults = usage::of_this_process().page_faults - before;
    Ok(less(processes, fault(faults)?))
}

/// A page of memory that a child process writes to for the first time, so that it is copied.
pub(crate) fn fault(count: u64) -> io::Result<Reading> {
    /// As many as a server's child copies, and so few that they are in a cache, as its parent's are.
    const PAGES: u64 = 48;
    let page = page_size();
    // Its parent has written to all of them, so that they are there.
    let block = vec![Cell::new(1_u8); page * PAGES as usize];
    let children = count.div_ceil(PAGES);
    let touching = |pages: usize| {
        time(children, || {
            let mut child = Children::default();
            child.start(|| block.iter().step_by(page).take(pages).for_each(|byte| byte.set(2)))?;
            reap(&mut child)
        })
    };
    let faults = less(touching(PAGES as usize)?, touching(0)?);
    Ok(Reading { count: children.max(1) * PAGES, ..faults })
}

/// Wakes in a batch at most, for each is waited for, which takes its time where another processor is busy.
const MOST_WAKES: u64 = 300;

/// A thread that sleeps on another processor is woken: by how much longer a write to a pipe takes, for whom writes, if
/// somebody waits to read. The median write stands for all.
pub(crate) fn wake(count: u64) -> io::Result<Reading> {
    /// Until the reader sleeps again, and the processor with it.
    const REST: Duration = Duration::from_micros(40);
    let count = count.min(MOST_WAKES);
    let (reader, writer) = pipe()?;
    let taken = AtomicU64::new(0);
    let alone = median((0..count).map(|_| {
        let elapsed = timed_write(&writer)?;
        read_one(&reader)?;
        Ok(elapsed)
    }))?;
    let woken = thread::scope(|scope| {
        let (away, is_away) = mpsc::channel();
        let (reader, taken, here) = (&reader, &taken, sched_getcpu());
        scope.spawn(move || {
            let left = leave_processor(here);
            let goes = left.is_ok();
            // Whoever waits for it is told, or has gone.
            let _ = away.send(left);
            for _ in 0..if goes { count } else { 0 } {
                if read_one(reader).is_err() {
                    break;
                }
                taken.fetch_add(1, Ordering::Release);
            }
        });
        is_away.recv().map_err(io::Error::other)??;
        median((0..count).map(|number| {
            let start = Instant::now();
            while taken.load(Ordering::Acquire) < number || start.elapsed() < REST {
                spin_loop();
            }
            timed_write(&writer)
        }))
    })?;
    let more = woken.saturating_sub(alone).as_nanos().max(1);
    Ok(Reading::new(count, more * u128::from(count), Unit::Nanoseconds))
}

/// One of several threads of a busy processor waits to read a byte, and is woken from another processor, which interrupts the
/// thread that runs; without the reading call, and the work that keeps the processor busy.
pub(crate) fn woken(count: u64) -> io::Result<Reading> {
    /// Enough that one is always running while others are woken.
    const READERS: u64 = 16;
    /// Until the last of them sleeps again.
    const REST: Duration = Duration::from_micros(20);
    let rounds = count.min(MOST_WAKES * READERS).div_ceil(READERS);
    let pipes: Vec<(OwnedFd, OwnedFd)> = (0..READERS).map(|_| pipe()).collect::<Result<_, _>>()?;
    let done = AtomicU64::new(0);
    let calls = own_pipe(rounds * READERS, &pipes[0])?;
    let working = time(rounds * READERS, || {
        work();
        Ok(())
    })?;
    let used = thread::scope(|scope| {
        let (ends, done, here) = (&pipes, &done, sched_getcpu());
        let readers: Vec<_> = pipes
            .iter()
            .map(|(reader, _)| {
                scope.spawn(move || {
                    for _ in 0..rounds {
                        read_one(reader)?;
                        work();
                        done.fetch_add(1, Ordering::Release);
                    }
                    io::Result::Ok(clock_gettime(ClockId::ThreadCPUTime))
                })
            })
            .collect();
        let writer = scope.spawn(move || {
            leave_processor(here)?;
            for round in 1..=rounds {
                for (_, writer) in ends {
                    write(writer, b"x")?;
                }
                let start = Instant::now();
                while done.load(Ordering::Acquire) < round * READERS || start.elapsed() < REST {
                    spin_loop();
                }
            }
            io::Result::Ok(())
        });
        let written = joined(writer);
        // Without a writer they would wait for ever.
        if written.is_err() {
            for (_, writer) in &pipes {
                for _ in 0..rounds {
                    write(writer, b"x")?;
                }
            }
        }
        let mut used = Duration::ZERO;
        for reader in readers {
            used += duration(joined(reader)?);
        }
        written.map(|()| used)
    })?;
    let read = Reading::new(rounds * READERS, used.as_nanos(), Unit::Nanoseconds);
    // A call that reads is about half of what it takes to write and read.
    let other = working.total + calls.total / 2;
    Ok(less(read, Reading { total: other, ..calls }))
}

/// Some ten microseconds of it: longer than it takes to wake somebody.
fn work() {
    for step in 0..20_000 {
        black_box(step);
    }
}

/// An answer over loopback takes longer if nothing was to be done on its processor before: the thread goes to sleep and
/// is woken from another processor, which the processor does from its rest, and with caches that others have used.
pub(crate) fn rest(count: u64) -> io::Result<Reading> {
    /// So many at once, and there is always another.
    const BUSY: u64 = 16;
    let count = count.clamp(BUSY, MOST_WAKES);
    Ok(less(answers(count, 1)?, answers(count, BUSY)?))
}

/// The time of a thread that answers a byte by a byte, of which `at_once` are on their way; one alone comes after a pause. The
/// other side never sleeps, so that no answer wakes it.
fn answers(count: u64, at_once: u64) -> io::Result<Reading> {
    /// Until the thread sleeps, and its processor rests.
    const PAUSE: Duration = Duration::from_micros(40);
    let (mut here, mut there) = connection()?;
    for end in [&here, &there] {
        end.set_nodelay(true)?;
    }
    there.set_nonblocking(true)?;
    let used = thread::scope(|scope| {
        let processor = sched_getcpu();
        let asking = scope.spawn(move || {
            leave_processor(processor)?;
            let (mut sent, mut heard) = (0, 0);
            while heard < count {
                while sent < count && sent - heard < at_once {
                    let start = Instant::now();
                    while at_once == 1 && start.elapsed() < PAUSE {
                        spin_loop();
                    }
                    there.write_all(b"x")?;
                    sent += 1;
                }
                match there.read(&mut [0; 64]) {
                    Ok(0) => return Err(io::Error::other("the other end has gone")),
                    Ok(bytes) => heard += bytes as u64,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => spin_loop(),
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        let answering = scope.spawn(move || {
            let mut byte = [0];
            for _ in 0..count {
                here.read_exact(&mut byte)?;
                here.write_all(&byte)?;
            }
            io::Result::Ok(clock_gettime(ClockId::ThreadCPUTime))
        });
        // An end that fails drops its side, which ends the other.
        joined(asking)?;
        joined(answering).map(duration)
    })?;
    Ok(Reading::new(count, used.as_nanos(), Unit::Nanoseconds))
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

fn duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn timed_write(writer: &OwnedFd) -> io::Result<Duration> {
    let start = Instant::now();
    write(writer, b"x")?;
    Ok(start.elapsed())
}

fn median(times: impl Iterator<Item = io::Result<Duration>>) -> io::Result<Duration> {
    let mut times: Vec<Duration> = times.collect::<io::Result<_>>()?;
    let middle = times.len() / 2;
    Ok(*times.select_nth_unstable(middle).1)
}

/// Moves this thread to another processor than `here`.
fn leave_processor(here: usize) -> io::Result<()> {
    let other = (0..CpuSet::MAX_CPU).filter(|&cpu| cpu != here).any(|cpu| {
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).is_ok()
    });
    if other { Ok(()) } else { Err(io::Error::other("there is no other processor")) }
}

/// Waits for the end of a child.
fn reap(children: &mut Children) -> io::Result<()> {
    waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    children.reap();
    Ok(())
}

/// As many switches as `count`, there and back, with a reading and a writing call for each.
fn round_trips(count: u64, there: &OwnedFd, back: &OwnedFd) -> io::Result<()> {
    for _ in 0..trips(count) {
        write(there, b"x")?;
        read_one(back)?;
    }
    Ok(())
}

fn answer(count: u64, there: &OwnedFd, back: &OwnedFd) -> io::Result<()> {
    for _ in 0..trips(count) {
        read_one(there)?;
        write(back, b"x")?;
    }
    Ok(())
}

const fn trips(count: u64) -> u64 {
    count.div_ceil(2)
}

/// The calls of as many switches, without the switches.
fn own_pipe(count: u64, (reader, writer): &(OwnedFd, OwnedFd)) -> io::Result<Reading> {
    time(trips(count) * 2, || {
        write(writer, b"x")?;
        read_one(reader)
    })
}

fn read_one(reader: &OwnedFd) -> io::Result<()> {
    match read(reader, &mut [0; 1])? {
        1 => Ok(()),
        _ => Err(io::Error::other("the other end has gone")),
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// Both ends of a TCP connection over loopback.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let there = TcpStream::connect(listener.local_addr()?)?;
    Ok((listener.accept()?.0, there))
}

fn time(count: u64, mut once: impl FnMut() -> io::Result<()>) -> io::Result<Reading> {
    let start = used();
    for _ in 0..count {
        once()?;
    }
    Ok(since(start, count))
}

/// The processor's time that this process has had, and its children that have ended, in microseconds.
fn used() -> u64 {
    usage::of_this_process().cpu_us
}

fn since(start: u64, count: u64) -> Reading {
    Reading::new(count.max(1), u128::from(used() - start) * 1000, Unit::Nanoseconds)
}

/// What is left of `whole` when `part` is taken off; no less than a nanosecond in all, for a clock is coarse.
fn less(whole: Reading, part: Reading) -> Reading {
    Reading { total: whole.total.saturating_sub(part.total).max(1), ..whole }
}
