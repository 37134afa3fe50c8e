//! "Wake me when": readiness from select, poll, epoll or io_uring behind one trait, and timers.
//!
//! An event loop first *tries* its read or write. If the kernel answers "would block", the loop
//! asks a [`Poller`] to report when another attempt makes sense:
//!
//! ```text
//!    a task                     the loop                        the poller       the kernel
//!    ──────                     ────────                        ──────────       ──────────
//!    read() ── would block ──▶  arm(descriptor, token, Read) ─▶ remembers
//!      ┆                        wait(timeout)                ─▶ sleeps in ─────▶ select, poll,
//!      ┆                                                                         epoll_wait
//!      ┆                        events: token is readable    ◀─ reports  ◀────── data arrived
//!    read() again  ◀── wakes ── the task of that token
//!      ┆
//!    close()            ─────▶  forget(descriptor, token)    ─▶ forgets; the token is free
//! ```
//!
//! Everything rests on one rule: *a report may be spurious, but is never lost*. A woken task always
//! tries again, so a false alarm costs one system call. After a lost report, the task would wait
//! for ever.
//!
//! ```
//! use std::os::fd::AsFd;
//! use duality_poller::{Direction, Kind, Token};
//!
//! let (reader, writer) = rustix::pipe::pipe()?;
//! let mut poller = Kind::Epoll.open()?;
//! poller.arm(reader.as_fd(), Token(0), Direction::Read)?;
//!
//! rustix::io::write(&writer, b"x")?;
//! let mut events = Vec::new();
//! poller.wait(None, &mut events)?;
//! assert!(events[0].token == Token(0) && events[0].readable);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Each poller is one file. Three of them have the same functions in the same order, so that a
//! reader can compare two files. The fourth, [`Ring`], is a folder: it also performs operations. To
//! add a poller, write a file, and add a variant, a row and a place in `ALL` to [`Kind`].
//!
//! System calls are made through rustix's raw Linux back-end. Nothing here prints, sleeps, starts a
//! thread or has a thread-local, because a preloaded library that interposes such functions uses
//! this crate.

#![warn(missing_debug_implementations)]

mod epoll;
mod poll;
mod select;
mod timers;
mod uring;

pub use timers::Timers;
pub use uring::Ring;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::io::Errno;

/// Reports when descriptors become ready. The module's picture shows the calls.
///
/// A poller belongs to one kernel thread. A descriptor has one token, from its first
/// [`arm`](Poller::arm) to its [`forget`](Poller::forget), and a token has one descriptor.
pub trait Poller {
    /// Asks for a report when `descriptor` can be read or written.
    ///
    /// The caller has just attempted that direction, with no [`wait`](Poller::wait) in between, and
    /// the attempt left nothing behind. Either the attempt would have blocked, or it read fewer
    /// bytes than the buffer holds and no event has yet said [`hangup`](Event::hangup). Then the
    /// poller reports at least one event with this token and direction, for present or later
    /// readiness. One `arm` gives one report. The woken task attempts again, and arms again if the
    /// attempt would block. Arming again before the report changes nothing.
    ///
    /// Level-triggered pollers (select, poll) disarm the direction as they report it. The
    /// edge-triggered poller (epoll) keeps a descriptor's registration until it closes, so that
    /// arming again costs no system call. `epoll.rs` says why this loses no report.
    ///
    /// The descriptor must be a socket, a pipe, an eventfd or the like: epoll refuses regular
    /// files (EPERM).
    ///
    /// # Errors
    ///
    /// The kernel's, from epoll_ctl(2) only: ENOMEM, or ENOSPC if the user has reached
    /// `/proc/sys/fs/epoll/max_user_watches`. Nothing is armed then.
    fn arm(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        direction: Direction,
    ) -> io::Result<()>;

    /// Ends the watch over `descriptor`, in O(1); the caller closes it next.
    ///
    /// Call it before you close a descriptor that was ever armed. Otherwise select fails with
    /// EBADF, and poll watches the next descriptor of that number. epoll takes the token's next
    /// descriptor for registered. The close should drop the last reference to the open file, which
    /// ends epoll's registration without a system call. If a forked child holds another reference,
    /// the token may go on receiving spurious events.
    ///
    /// The token may be used again at once. Events that were collected earlier reach the token's
    /// new user as spurious events.
    fn forget(&mut self, descriptor: BorrowedFd<'_>, token: Token);

    /// Like [`forget`](Poller::forget), for a descriptor with duplicates (by dup(2)). Its close
    /// does not drop the last reference to the open file. epoll makes one more system call.
    fn forget_duplicate(&mut self, descriptor: BorrowedFd<'_>, token: Token) {
        self.forget(descriptor, token);
    }

    /// Sleeps until an armed direction is ready or `timeout` has passed (`None`: for ever). Then
    /// replaces the contents of `events` by the reports.
    ///
    /// A token may appear more than once. epoll reports at most 64 events, and the rest in the next
    /// round. The list is empty if the timeout passed or a signal came (EINTR). Otherwise the wait
    /// never ends early. epoll rounds the timeout up to a millisecond; select and poll take it to
    /// the nanosecond. With a timeout of zero, `wait` does not sleep.
    ///
    /// # Errors
    ///
    /// The kernel's: ENOMEM, EINVAL from poll(2) with more descriptors than RLIMIT_NOFILE, or
    /// EBADF from select(2) when a descriptor was closed without [`forget`](Poller::forget).
    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;

    /// The ring that this poller is, if it also performs operations.
    fn ring(&mut self) -> Option<&mut Ring> {
        None
    }
}

/// The direction in which a task wants to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The task wants to take bytes, a connection, or the end of the stream from the descriptor.
    Read,
    /// The task wants room to put bytes into the descriptor, or the outcome of a connect.
    Write,
}

/// The caller's name for a descriptor: a small dense integer, such as a slab's index, because
/// pollers keep arrays indexed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// A report of [`Poller::wait`] about one token.
///
/// An error or a full hang-up counts as both readable and writable. So the waiting task attempts
/// again, and learns the error from the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token that the descriptor was armed with.
    pub token: Token,
    /// A read, or accept, will probably not block.
    pub readable: bool,
    /// A write will probably not block, or a connect has ended.
    pub writable: bool,
    /// The peer has shut down, or the connection failed: the end may follow directly after the
    /// bytes.
    ///
    /// After this event, a short read no longer proves that the descriptor is empty. So the reader
    /// must go on to the end or to "would block" before it arms. The flag matters only to an
    /// edge-triggered poller: this event may have been its one report of the end. A level-triggered
    /// poller reports an end at every `arm`, and may leave the flag false. poll sets the flag;
    /// select cannot know of a hang-up.
    pub hangup: bool,
}

/// A kind of poller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// select(2), with bitmaps of any size: libc's `fd_set` has a limit, the kernel's call has
    /// none.
    Select,
    /// poll(2).
    Poll,
    /// epoll(7), edge-triggered.
    Epoll,
    /// io_uring(7).
    Uring,
}

impl Kind {
    /// Every poller, oldest first.
    pub const ALL: &'static [Kind] = &[Kind::Select, Kind::Poll, Kind::Epoll, Kind::Uring];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// One line for help and tables: the cost of a round, and the year.
    pub fn summary(self) -> &'static str {
        self.row().summary
    }

    /// Whether the poller looks at every watched descriptor in each round, so that idle descriptors
    /// cost time too.
    pub fn looks_at_all(self) -> bool {
        matches!(self, Kind::Select | Kind::Poll)
    }

    /// The cheapest poller for many busy connections that this machine can run: uring, or epoll if
    /// the kernel refuses uring.
    pub fn best() -> Kind {
        match Kind::Uring.unavailable() {
            None => Kind::Uring,
            Some(_) => Kind::Epoll,
        }
    }

    /// Makes a poller that watches nothing yet.
    ///
    /// # Errors
    ///
    /// The kernel's: EMFILE, ENFILE or ENOMEM from epoll_create1(2). select and poll do not fail.
    pub fn open(self) -> io::Result<Box<dyn Poller>> {
        (self.row().open)()
    }

    /// Why this machine cannot run the poller, in one line. `None` if it can.
    pub fn unavailable(self) -> Option<String> {
        let look = |mut poller: Box<dyn Poller>| poller.wait(Some(Duration::ZERO), &mut Vec::new());
        let error = self.open().and_then(look).err()?;
        let remedy = match (self, Errno::from_io_error(&error)) {
            (_, Some(Errno::MFILE)) => "raise the limit with `ulimit -n`",
            (_, Some(Errno::NFILE)) => "raise the limit with `sysctl fs.file-max`",
            (_, Some(Errno::NOMEM)) => "raise the limit with `ulimit -v` or --address-space",
            (Kind::Uring, Some(Errno::INVAL)) => "it needs Linux 6.1",
            (Kind::Uring, _) => "look for a system call filter, and at kernel.io_uring_disabled",
            _ => "look for a system call filter",
        };
        Some(format!("the kernel refuses {self} here: {error}; {remedy}"))
    }

    /// The one place that ties a kind to its file.
    fn row(self) -> Row {
        match self {
            Kind::Select => Row {
                name: "select",
                summary: select::SUMMARY,
                open: || Ok(Box::new(select::Select::new()?)),
            },
            Kind::Poll => Row {
                name: "poll",
                summary: poll::SUMMARY,
                open: || Ok(Box::new(poll::Poll::new()?)),
            },
            Kind::Epoll => Row {
                name: "epoll",
                summary: epoll::SUMMARY,
                open: || Ok(Box::new(epoll::Epoll::new()?)),
            },
            Kind::Uring => Row {
                name: "uring",
                summary: uring::SUMMARY,
                open: || Ok(Box::new(uring::Ring::new()?)),
            },
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Kind::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

/// The error of parsing a [`Kind`]: no poller has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind(String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        write!(formatter, "no poller is called '{}'; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownKind {}

/// The parts of a kind.
struct Row {
    name: &'static str,
    summary: &'static str,
    open: fn() -> io::Result<Box<dyn Poller>>,
}

/// The kernel's form of a timeout. A timeout beyond its range of 292 billion years means for ever.
fn timespec(timeout: Option<Duration>) -> Option<Timespec> {
    timeout.and_then(|timeout| Timespec::try_from(timeout).ok())
}
