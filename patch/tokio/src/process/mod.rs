//! Child processes. A task waits for the end of a child by the child's `pidfd`, which the world
//! watches like a socket. No signal handler is needed.
//!
//! ```text
//!   Command ─ spawn ─▶ Child ─ wait ─▶ pidfd is readable ─▶ waitpid(2): the exit status
//!                        │
//!                        └ dropped ─▶ orphans: reaped when this module is used again
//! ```

mod command;
mod pipes;

use std::future::poll_fn;
use std::io;
use std::process::{Child as StdChild, ExitStatus, Output};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use duality_poller::Direction;
use real::io::{AsyncRead, AsyncReadExt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::watched::Watched;

pub use command::Command;
pub use pipes::{ChildStderr, ChildStdin, ChildStdout};

/// A child process. A dropped child goes on, unless its command said
/// [`kill_on_drop`](Command::kill_on_drop).
#[derive(Debug)]
pub struct Child {
    /// The writing end of the child's standard input, if it was piped.
    pub stdin: Option<ChildStdin>,
    /// The reading end of the child's standard output, if it was piped.
    pub stdout: Option<ChildStdout>,
    /// The reading end of the child's standard error, if it was piped.
    pub stderr: Option<ChildStderr>,
    process: Process,
}

impl Child {
    fn new(mut child: StdChild, kills_on_drop: bool) -> io::Result<Self> {
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Process::new(child, kills_on_drop)?;
        Ok(Self {
            stdin: stdin.map(ChildStdin::from_std).transpose()?,
            stdout: stdout.map(ChildStdout::from_std).transpose()?,
            stderr: stderr.map(ChildStderr::from_std).transpose()?,
            process,
        })
    }

    /// The number of the process, until [`wait`](Self::wait) has returned its status.
    pub fn id(&self) -> Option<u32> {
        let Process { child, status, .. } = &self.process;
        child.as_ref().filter(|_| status.is_none()).map(StdChild::id)
    }

    /// Sends SIGKILL, without waiting for the end. Does nothing if the child has been waited for.
    ///
    /// # Errors
    ///
    /// The errors of `kill(2)`.
    pub fn start_kill(&mut self) -> io::Result<()> {
        match (&mut self.process.child, self.process.status) {
            (Some(child), None) => child.kill(),
            _ => Ok(()),
        }
    }

    /// Sends SIGKILL, and waits for the end.
    ///
    /// # Errors
    ///
    /// Those of [`start_kill`](Self::start_kill) and [`wait`](Self::wait).
    pub async fn kill(&mut self) -> io::Result<()> {
        self.start_kill()?;
        self.wait().await.map(drop)
    }

    /// Closes the child's standard input, and waits for the end. A wait that is dropped loses
    /// nothing: a further wait returns the status.
    ///
    /// # Errors
    ///
    /// The errors of `waitpid(2)`.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        poll_fn(|context| self.process.poll_end(context)).await
    }

    /// The status, if the child has ended.
    ///
    /// # Errors
    ///
    /// The errors of `waitpid(2)`.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.look()
    }

    /// Closes the child's standard input, reads its piped outputs to their ends, and waits for its
    /// end.
    ///
    /// # Errors
    ///
    /// The errors of `read(2)` and `waitpid(2)`.
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let (status, stdout, stderr) =
            real::try_join!(self.wait(), read_to_end(stdout), read_to_end(stderr))?;
        Ok(Output { status, stdout, stderr })
    }
}

async fn read_to_end(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// The process of a child, and its end.
#[derive(Debug)]
struct Process {
    /// Always there, except while the process is dropped.
    child: Option<StdChild>,
    /// Readable once the process has ended.
    end: Watched,
    status: Option<ExitStatus>,
    kills_on_drop: bool,
}

impl Process {
    fn new(mut child: StdChild, kills_on_drop: bool) -> io::Result<Self> {
        reap_orphans();
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(end) => {
                let end = Watched::of_nonblocking(end);
                Ok(Self { child: Some(child), end, status: None, kills_on_drop })
            }
            Err(error) => {
                // The caller gets no child, so the process must not go on.
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    fn look(&mut self) -> io::Result<Option<ExitStatus>> {
        if let (Some(child), None) = (&mut self.child, self.status) {
            self.status = child.try_wait()?;
        }
        Ok(self.status)
    }

    fn poll_end(&mut self, context: &Context<'_>) -> Poll<io::Result<ExitStatus>> {
        loop {
            if let Some(status) = self.look()? {
                return Poll::Ready(Ok(status));
            }
            ready!(self.end.poll_ready(context, Direction::Read))?;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if self.status.is_none() {
            if self.kills_on_drop {
                // The process may have ended meanwhile.
                let _ = child.kill();
            }
            orphans().push(child);
            reap_orphans();
        }
    }
}

/// The children that were dropped before their ends.
fn orphans() -> std::sync::MutexGuard<'static, Vec<StdChild>> {
    static ORPHANS: Mutex<Vec<StdChild>> = Mutex::new(Vec::new());
    ORPHANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the statuses of orphans that have ended, so that no zombie stays.
fn reap_orphans() {
    orphans().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}
