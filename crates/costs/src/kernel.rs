//! The kernel's costs for architectures: a system call, an attempt that would block, a registration
//! with epoll, a switch to another kernel thread, a process.
//!
//! Only differences between architectures count, so operations that all architectures do are left
//! out. No bytes move, except the one byte of a switch. The reading leaves out the two system calls
//! for that byte, which are measured separately.
//!
//! All times are processor time of this process and its children. Elapsed time would include other
//! programs' use of the processor, which can be larger than these differences.

use std::cell::Cell;
use std::hint::{black_box, spin_loop};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
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

/// A system call with almost no work: getppid(2).
pub(crate) fn call(count: u64) -> io::Result<Reading> {
    time(count, || {
        black_box(getppid());
        Ok(())
    })
}

/// poll(2) of a connection on which bytes have come. The block world makes this call before each
/// operation under a deadline.
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

/// A registration with epoll, from the call until the descriptor is closed. The cost of making and
/// closing an unregistered descriptor is subtracted.
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

/// The members of a ring of switches. Linux keeps the address translations of a few processes on a
/// processor (six on x86). A ring has more members, as a server has.
const MEMBERS: usize = 16;

/// The first rounds of a ring. After these rounds, all members have touched the memory that they
/// use.
const FIRST_ROUNDS: u64 = 2;
/// The time of fewer rounds would be lost in the variation of the members' starts.
const FEWEST_ROUNDS: u64 = 100;

/// A switch from one kernel thread to another of the same process. Each waits to read from a pipe.
pub(crate) fn switch(count: u64) -> io::Result<Reading> {
    switches(count, |ring, rounds| {
        thread::scope(|scope| {
            // If a member cannot be started, the others must not wait for it.
            let mut gates = Vec::with_capacity(MEMBERS);
            for member in 1..MEMBERS {
                let (go, gate) = mpsc::channel();
                thread::Builder::new().spawn_scoped(scope, move || {
                    if gate.recv().is_ok() {
                        let _ = pass_on(ring, member, rounds);
                    }
                })?;
                gates.push(go);
            }
            for go in gates {
                // Opens the gate of each member, which waits only for its gate.
                let _ = go.send(());
            }
            pass_on(ring, 0, rounds)
        })
    })
}

/// A switch from one process to another, each with its own address space.
pub(crate) fn process_switch(count: u64) -> io::Result<Reading> {
    switches(count, |ring, rounds| {
        let mut children = Children::new()?;
        for member in 1..MEMBERS {
            children.start(|| drop(pass_on(ring, member, rounds)))?;
        }
        pass_on(ring, 0, rounds)?;
        // The kernel adds a child's time when the child is reaped.
        while children.count() > 0 {
            reap(&mut children)?;
        }
        Ok(())
    })
}

/// The switches alone: the time of a ring for `count` switches, minus the time to begin and end,
/// minus the system calls.
fn switches(
    count: u64,
    go_round: impl Fn(&[(OwnedFd, OwnedFd)], u64) -> io::Result<()>,
) -> io::Result<Reading> {
    let ring = ring()?;
    let rounds = rounds(count);
    let calls = own_pipe(rounds * MEMBERS as u64, &ring[0])?;
    let timed = |rounds: u64| {
        let start = used();
        go_round(&ring, rounds)?;
        Ok::<_, io::Error>(since(start, calls.count))
    };
    let beginning = timed(FIRST_ROUNDS)?;
    Ok(less(less(timed(FIRST_ROUNDS + rounds)?, beginning), calls))
}

fn ring() -> io::Result<Vec<(OwnedFd, OwnedFd)>> {
    (0..MEMBERS).map(|_| pipe()).collect()
}

fn rounds(count: u64) -> u64 {
    count.div_ceil(MEMBERS as u64).max(FEWEST_ROUNDS)
}

/// The loop of a member. A member hands on the byte that it reads, and the first member begins.
fn pass_on(ring: &[(OwnedFd, OwnedFd)], member: usize, rounds: u64) -> io::Result<()> {
    let (own, next) = (&ring[member].0, &ring[(member + 1) % MEMBERS].1);
    for _ in 0..rounds {
        if member == 0 {
            write(next, b"x")?;
            read_one(own)?;
        } else {
            read_one(own)?;
            write(next, b"x")?;
        }
    }
    Ok(())
}

/// A child process with an empty task: made, run and reaped, without its page faults.
pub(crate) fn process(count: u64) -> io::Result<Reading> {
    let mut children = Children::new()?;
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
    /// The number of pages that a server's child copies. These pages stay in a cache, as the
    /// parent's pages do.
    const PAGES: u64 = 48;
    let page = page_size();
    // The parent has written to all pages, so that they exist.
    let block = vec![Cell::new(1_u8); page * PAGES as usize];
    let children = count.div_ceil(PAGES);
    let touching = |pages: usize| {
        time(children, || {
            let mut child = Children::new()?;
            child.start(|| block.iter().step_by(page).take(pages).for_each(|byte| byte.set(2)))?;
            reap(&mut child)
        })
    };
    let faults = less(touching(PAGES as usize)?, touching(0)?);
    Ok(Reading { count: children.max(1) * PAGES, ..faults })
}

/// The wake of a thread that sleeps on another processor. The reading is the extra time of an
/// answer over loopback if the asking thread and its processor sleep until the answer comes. The
/// reading contains the interrupt (through the host, on a virtual machine) and the cost of both
/// sides' rest.
pub(crate) fn wake(count: u64) -> io::Result<Reading> {
    let count = count.clamp(BUSY, MOST_RESTS);
    Ok(less(answers(count, 1, Asks::Asleep)?, answers(count, 1, Asks::Paced)?))
}

/// One of several threads of a busy processor waits for a byte. Another processor wakes it, and so
/// interrupts the running thread. The reading is the extra time of an answer over loopback,
/// compared with a thread that need not wait.
pub(crate) fn woken(count: u64) -> io::Result<Reading> {
    /// Enough threads that one is always running while others are woken.
    const THREADS: usize = 16;
    let count = count.max(2_000).next_multiple_of(THREADS as u64);
    Ok(less(answers(count, THREADS, Asks::Each)?, answers(count, 1, Asks::Often)?))
}

/// An answer over loopback takes longer if its processor had nothing to do before. The answering
/// thread goes to sleep, and another processor wakes it. Its own processor wakes from its rest,
/// with caches that others have used. The asking thread is awake, so no answer wakes it. [`wake`]
/// measures an asking thread that sleeps.
pub(crate) fn rest(count: u64) -> io::Result<Reading> {
    let count = count.clamp(BUSY, MOST_RESTS);
    Ok(less(answers(count, 1, Asks::Paced)?, answers(count, 1, Asks::Often)?))
}

/// The most rests in a batch. Each rest takes time.
const MOST_RESTS: u64 = 300;

/// The number of questions under way at once. Another question always waits.
const BUSY: u64 = 16;

/// The order and the pace of questions.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    /// Another question always waits. The asking thread never sleeps.
    Often,
    /// Each connection has one question at a time, sent after each answer. The asking thread never
    /// sleeps.
    Each,
    /// A question comes after a pause in which the answering thread sleeps. The asking thread does
    /// not sleep.
    Paced,
    /// A question comes after each answer. The asking thread sleeps until then.
    Asleep,
}

impl Asks {
    /// Long enough for the answering thread to sleep, and for its processor to rest.
    const PAUSE: Duration = Duration::from_micros(40);

    const fn at_once(self) -> u64 {
        match self {
            Self::Often => BUSY,
            Self::Each | Self::Paced | Self::Asleep => 1,
        }
    }
}

/// The time of `threads` threads. Each answers bytes with bytes on its own connection. The threads
/// give `count` answers in all.
fn answers(count: u64, threads: usize, asks: Asks) -> io::Result<Reading> {
    /// The number of answers before the timed answers. More would distort the reading. After some
    /// hundred exchanges with sleep on both sides, each further exchange takes 8 µs more on our
    /// machine, with any server. Most connections of servers see fewer exchanges.
    const WARM_UP: u64 = 100;
    let (warm_up, each) = (WARM_UP.div_ceil(threads as u64), count.div_ceil(threads as u64));
    let all = warm_up + each;
    let connections: Vec<_> = (0..threads).map(|_| connection()).collect::<Result<_, _>>()?;
    for (here, there) in &connections {
        here.set_nodelay(true)?;
        there.set_nodelay(true)?;
        there.set_nonblocking(asks != Asks::Asleep)?;
    }
    let used = thread::scope(|scope| {
        let processor = sched_getcpu();
        let (here, there): (Vec<_>, Vec<_>) = connections.into_iter().unzip();
        // An end that fails or cannot be started drops its side of the connection. The other end
        // then ends too.
        let asking = thread::Builder::new().spawn_scoped(scope, move || {
            leave_processor(processor)?;
            question(there, all, asks)
        })?;
        let answering = here.into_iter().map(|here| {
            thread::Builder::new().spawn_scoped(scope, move || answer(here, warm_up, each))
        });
        let answering: Vec<_> = answering.collect::<io::Result<_>>()?;
        joined(asking)?;
        answering.into_iter().map(joined).sum::<io::Result<Duration>>()
    })?;
    Ok(Reading::new(each * threads as u64, used.as_nanos(), Unit::Nanoseconds))
}

/// Asks `all` times on each connection.
fn question(mut connections: Vec<TcpStream>, all: u64, asks: Asks) -> io::Result<()> {
    let mut sent = vec![0; connections.len()];
    let mut heard = sent.clone();
    while heard.iter().any(|&heard| heard < all) {
        for (connection, (sent, heard)) in
            connections.iter_mut().zip(sent.iter_mut().zip(&mut heard))
        {
            while *sent < all && *sent - *heard < asks.at_once() {
                let start = Instant::now();
                while asks == Asks::Paced && start.elapsed() < Asks::PAUSE {
                    spin_loop();
                }
                connection.write_all(b"x")?;
                *sent += 1;
            }
            if *heard == all {
                continue;
            }
            match connection.read(&mut [0; 64]) {
                Ok(0) => return Err(io::Error::other("the other end has gone")),
                Ok(bytes) => *heard += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => spin_loop(),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The processor time of `each` answers, after `warm_up` others.
fn answer(mut connection: TcpStream, warm_up: u64, each: u64) -> io::Result<Duration> {
    let own_time = || duration(clock_gettime(ClockId::ThreadCPUTime));
    let mut byte = [0];
    let mut from = Duration::ZERO;
    for number in 0..warm_up + each {
        if number == warm_up {
            from = own_time();
        }
        connection.read_exact(&mut byte)?;
        connection.write_all(&byte)?;
    }
    Ok(own_time() - from)
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

fn duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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
pub(crate) fn reap(children: &mut Children) -> io::Result<()> {
    waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    children.reap_all();
    Ok(())
}

/// The system calls of `count` switches, without the switches.
fn own_pipe(count: u64, (reader, writer): &(OwnedFd, OwnedFd)) -> io::Result<Reading> {
    time(count, || {
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

pub(crate) fn time(count: u64, mut once: impl FnMut() -> io::Result<()>) -> io::Result<Reading> {
    let start = used();
    for _ in 0..count {
        once()?;
    }
    Ok(since(start, count))
}

/// The processor time of this process and of its reaped children, in microseconds.
fn used() -> u64 {
    usage::of_this_process().cpu_us
}

fn since(start: u64, count: u64) -> Reading {
    Reading::new(count.max(1), u128::from(used() - start) * 1000, Unit::Nanoseconds)
}

/// `whole` minus `part`, but at least a nanosecond, since clocks are coarse.
pub(crate) fn less(whole: Reading, part: Reading) -> Reading {
    Reading { total: whole.total.saturating_sub(part.total).max(1), ..whole }
}
