//! Child processes: made, reaped, and drained with their parent.
//!
//! A child is a copy of the one kernel thread that forks. In the child, the work of all other
//! threads stops half-way, locks included. So a process may fork only while all its other threads
//! are [`helper`]s.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use duality_runtime::net::TcpStream;
use duality_runtime::visibility::ChildSlot;
use duality_runtime::{processor, task};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process,
    set_parent_process_death_signal, wait,
};

/// The interval at which a parent that waits for children tries to reap them.
pub const ROUND: Duration = Duration::from_millis(20);

static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// Announces a thread that is about to start, and that a fork may leave behind. The thread must
/// never hold a lock that a child takes, except malloc's, which glibc repairs.
pub fn helper() {
    HELPERS.fetch_add(1, Ordering::Relaxed);
}

/// Checks that this process may fork.
///
/// # Errors
///
/// Says what to do about the process's other threads.
pub fn may_fork() -> io::Result<()> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    match threads.saturating_sub(1 + HELPERS.load(Ordering::Relaxed)) {
        0 => Ok(()),
        others => Err(io::Error::other(format!(
            "this program runs {others} threads of its own, which its child processes would not have: \
             start them after the server, or choose an architecture without processes"
        ))),
    }
}

/// The living children of this process.
pub struct Children {
    living: HashMap<Pid, Child>,
}

impl fmt::Debug for Children {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Children").field("count", &self.count()).finish_non_exhaustive()
    }
}

struct Child {
    /// The child has a slot until it has been reaped.
    _slot: ChildSlot,
    started: Instant,
    /// What the child's connection holds. The parent drops it, even if the child is killed.
    held: Option<Box<dyn Any + Send + Sync>>,
}

/// A child that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its process id.
    pub process: Pid,
    /// How it ended, as wait(2) reports.
    pub status: WaitStatus,
    /// How long it lived.
    pub age: Duration,
}

impl Children {
    /// No children yet. From now on, the process may start only [`helper`] threads.
    ///
    /// # Errors
    ///
    /// The errors of [`may_fork`].
    pub fn new() -> io::Result<Self> {
        may_fork()?;
        Ok(Self { living: HashMap::new() })
    }

    /// Makes a child that runs `body` and exits. The kernel kills the child when its parent dies.
    ///
    /// # Errors
    ///
    /// `EAGAIN` and `ENOMEM`: processes or memory have run out.
    pub fn start(&mut self, body: impl FnOnce()) -> io::Result<Pid> {
        self.fork(body).map(|(process, _)| process)
    }

    fn fork(&mut self, body: impl FnOnce()) -> io::Result<(Pid, &mut Child)> {
        let parent = getpid();
        let slot = ChildSlot::reserve();
        processor::detect_features();
        // SAFETY: the child goes on with a copy of this one kernel thread. `new` found only helpers
        // beside it. After `new`, the parent's architecture and its helpers start no threads.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                if getppid() == Some(parent) {
                    slot.occupy();
                    task::contain(body);
                }
                // SAFETY: _exit has no preconditions; the parent runs the exit handlers.
                unsafe { libc::_exit(0) }
            }
            child => {
                let child = Pid::from_raw(child).expect("fork(2) returns a process");
                let started = Instant::now();
                let born = Child { _slot: slot, started, held: None };
                Ok((child, self.living.entry(child).insert_entry(born).into_mut()))
            }
        }
    }

    /// The number of living children.
    pub fn count(&self) -> usize {
        self.living.len()
    }

    /// Makes a child that serves the connection. After an error, the caller still has the
    /// connection.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start).
    pub(crate) fn give(
        &mut self,
        stream: &mut Option<TcpStream>,
        serve: impl FnOnce(TcpStream),
    ) -> io::Result<()> {
        let (_, child) = self.fork(|| {
            if let Some(stream) = stream.take() {
                serve(stream);
            }
        })?;
        // The child has the connection, so the parent closes its own descriptor.
        if let Some(mut stream) = stream.take() {
            child.held = stream.release();
            stream.leave_to_child();
        }
        Ok(())
    }

    /// Reaps a child that has ended, if there is one. Does not wait.
    pub fn reap(&mut self) -> Option<Ended> {
        loop {
            let Ok(Some((process, status))) = wait(WaitOptions::NOHANG) else { return None };
            // The process may have children that are not this server's.
            if let Some(child) = self.living.remove(&process) {
                return Some(Ended { process, status, age: child.started.elapsed() });
            }
        }
    }

    /// Reaps all children that have ended. Does not wait.
    pub fn reap_all(&mut self) {
        while self.reap().is_some() {}
    }

    /// Makes all children drain.
    pub fn drain(&self) {
        for child in self.living.keys() {
            // A child that has ended meanwhile needs no signal.
            let _ = kill_process(*child, Signal::USR2);
        }
    }

    /// Waits for all children.
    pub fn wait(mut self) {
        while !self.living.is_empty() {
            self.reap_all();
            std::thread::sleep(ROUND);
        }
    }
}
