//! Child processes: made, reaped, and drained with their parent.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use duality_runtime::visibility::ChildSeat;
use duality_runtime::{processor, task};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, wait,
};

/// How often a parent that waits for children looks after them.
pub const ROUND: Duration = Duration::from_millis(20);

/// The living children of this process.
#[derive(Default)]
pub struct Children {
    /// Each with its seat, which is its until it has been reaped.
    living: HashMap<Pid, ChildSeat>,
}

impl Children {
    /// Makes a child that runs `body` and exits. It is killed when its parent dies.
    ///
    /// # Errors
    ///
    /// `EAGAIN` and `ENOMEM`: processes or memory have run out.
    pub fn start(&mut self, body: impl FnOnce()) -> io::Result<()> {
        let parent = getpid();
        let seat = ChildSeat::reserve();
        processor::know();
        // SAFETY: the child goes on with a copy of this one kernel thread. The process has at most two
        // others, the control channel's and the one that watches, which hold no lock of std that a child
        // takes; malloc's own locks are put right by glibc.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                if getppid() == Some(parent) {
                    seat.sit();
                    task::contain(body);
                }
                // SAFETY: _exit has no preconditions; exit handlers are the parent's to run.
                unsafe { libc::_exit(0) }
            }
            child => {
                self.living.extend(Pid::from_raw(child).map(|child| (child, seat)));
                Ok(())
            }
        }
    }

    /// How many live.
    pub fn count(&self) -> usize {
        self.living.len()
    }

    /// Reaps those that have ended; does not wait.
    pub fn reap(&mut self) {
        while let Ok(Some((child, _))) = wait(WaitOptions::NOHANG) {
            self.living.remove(&child);
        }
    }

    /// Has all children drain, and waits for them.
    pub fn drain(mut self) {
        for child in self.living.keys() {
            // One that has ended in the meantime needs no telling.
            let _ = kill_process(*child, Signal::USR2);
        }
        while !self.living.is_empty() {
            self.reap();
            std::thread::sleep(ROUND);
        }
    }
}
