//! io_uring(7): one shared queue takes requests for operations, another reports completions.
//!
//! ```text
//!   tasks                     Ring                              the kernel
//!   ─────                     ────                              ──────────
//!   accept() ◀── descriptors ◀─┐        multishot accept ◀───── a connection
//!   receive() ◀── bytes ◀──────┼─ completions ◀─ multishot receive ◀── bytes, in provided buffers
//!   send(bytes) ──▶ copied ────┼─ requests ────▶ send
//!   arm(descriptor) ───────────┴───────────────▶ poll, for all that is not of these three
//!                         wait() = one io_uring_enter(2) for all of it
//! ```
//!
//! A [`Ring`] is a [`Poller`] that also performs operations on sockets. [`receive`](Ring::receive),
//! [`send`](Ring::send) and [`accept`](Ring::accept) have the shape of system calls that do not
//! block. So a loop attempts, arms and waits as it does elsewhere. But these operations only move
//! bytes to and from queues, and make no system call. The next [`wait`](Poller::wait) makes one
//! system call for all of them. After the first accept or receive, the kernel goes on accepting or
//! receiving by itself.
//!
//! The ring names a descriptor by its number, in requests that it passes on later. If the caller
//! closed the descriptor earlier, the number would mean another file. So the caller promises to
//! keep a socket open until [`close`](Ring::close) or [`forget`](Poller::forget). So the three
//! operations are unsafe.
//!
//! A poll by io_uring always reports that the peer has ended its side (`POLLRDHUP`). A report ends
//! a poll, unless the poll is multishot. So a poll for writing is multishot: it reports the peer's
//! end once, and room later.
//!
//! Descriptors that the ring operates on are in blocking mode; the ring never blocks. For a
//! non-blocking descriptor, io_uring reports "would block" where it should wait.
//!
//! Source: Jens Axboe, Linux 5.1, 2019; io_uring_enter(2), io_uring_setup(2), io_uring_register(2).
//! The ring needs Linux 6.1, for multishot accept and receive, provided buffers in a ring, and
//! deferred task work.

mod buffers;
mod name;
mod queue;
mod receive;
mod sends;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;

use self::buffers::Chain;
use self::name::{GENERATIONS, Purpose, name, parts};
use self::queue::{Completion, Queue};
use self::sends::{Flight, Owner};
use crate::{Direction, Event, Poller, Token};

pub(crate) const SUMMARY: &str =
    "operations in shared queues; a round is one system call for all of them (Linux, 2019)";

const READ: PollFlags = PollFlags::IN.union(PollFlags::RDHUP);
const WRITE: PollFlags = PollFlags::OUT;
const FAILED: PollFlags = PollFlags::HUP.union(PollFlags::ERR);

/// The most buffers that wait for one reader before the ring stops receiving for it.
const WAITING: u16 = 16;
/// How long the kernel may go on sending bytes that were written before a close.
const LINGER: Duration = Duration::from_secs(30);
/// How long the kernel may go on sending at the end of the ring.
const LAST_LINGER: Duration = Duration::from_secs(2);

/// A poller that also performs operations (io_uring(7)).
pub struct Ring {
    queue: Queue,
    sources: Vec<Source>,
    /// Flights of closed sockets, each with the time when it is given up, the oldest first.
    lingering: VecDeque<(Flight, u32, Instant)>,
}

/// The state of one descriptor.
#[derive(Default)]
struct Source {
    /// Distinguishes this descriptor from earlier ones with the same token.
    generation: u32,
    reading: Reading,
    /// Received bytes that have not been read.
    received: Chain,
    /// How the stream ends after the received bytes, if it has ended.
    ended: Option<Result<(), Errno>>,
    /// The kernel had no buffer for its bytes.
    starved: bool,
    /// A listener's connections that have not been taken.
    accepted: Option<VecDeque<OwnedFd>>,
    sending: Option<Flight>,
    /// How the last flight failed. The next write reports it.
    failed: Option<Errno>,
    /// Whether the kernel polls the descriptor, for reading and for writing.
    polled: [bool; 2],
}

/// Whether the kernel accepts or receives by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    #[default]
    Not,
    Goes,
    /// The kernel was asked to stop.
    Stops,
}

impl Ring {
    /// Sets up a ring for this kernel thread, the only one that can use it.
    ///
    /// # Errors
    ///
    /// ENOSYS or EPERM where io_uring is forbidden (a container's filter,
    /// `kernel.io_uring_disabled`), EINVAL before Linux 6.1, ENOMEM, EMFILE.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { queue: Queue::new()?, sources: Vec::new(), lingering: VecDeque::new() })
    }

    /// Accepts a connection; its socket is in blocking mode.
    ///
    /// From the first call on, the kernel accepts all connections that come until
    /// [`stop_accepting`](Ring::stop_accepting). It empties the accept queue at once, so a bound on
    /// waiting connections must leave room for the whole queue. To leave connections in the queue,
    /// call accept(2) when the listener is [armed](Poller::arm) and readable.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is none yet. The errors of `accept(2)`.
    ///
    /// # Safety
    ///
    /// The listener stays open until [`close`](Self::close) or [`forget`](Poller::forget) with this
    /// token.
    pub unsafe fn accept(&mut self, listener: BorrowedFd<'_>, token: Token) -> io::Result<OwnedFd> {
        let source = find(&mut self.sources, token);
        if let Some(descriptor) = source.accepted.get_or_insert_default().pop_front() {
            return Ok(descriptor);
        }
        if let Some(Err(error)) = source.ended.take() {
            return Err(error.into());
        }
        if source.reading == Reading::Not {
            source.reading = Reading::Goes;
            self.queue.accept(listener, name(Purpose::Accept, source.generation, token));
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Makes the kernel stop accepting by itself. An event for reading tells when the kernel has
    /// stopped. [`accepted_before`](Ring::accepted_before) returns the connections that it has
    /// accepted.
    pub fn stop_accepting(&mut self, token: Token) {
        let source = find(&mut self.sources, token);
        if source.reading == Reading::Goes && source.accepted.is_some() {
            source.reading = Reading::Stops;
            self.queue.cancel(name(Purpose::Accept, source.generation, token));
        }
    }

    /// A connection that the kernel accepted before it was told to stop.
    pub fn accepted_before(&mut self, token: Token) -> Option<OwnedFd> {
        find(&mut self.sources, token).accepted.as_mut()?.pop_front()
    }

    /// Takes some of the bytes of `buffers` to be sent, and returns how many. The next call reports
    /// a failure that comes later.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while earlier bytes have not been sent. The errors of `send(2)`.
    ///
    /// # Safety
    ///
    /// The socket stays open until [`close`](Self::close) or [`forget`](Poller::forget) with this
    /// token.
    pub unsafe fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        token: Token,
        buffers: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        self.all_sent(token)?;
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        let source = find(&mut self.sources, token);
        let owner = Owner { token, generation: source.generation };
        let (flight, count) = self.queue.sends.load(buffers, owner)?;
        source.sending = Some(flight);
        self.queue.send(socket, flight, name(Purpose::Send, 0, Token(flight.0)));
        Ok(count)
    }

    /// Whether there are received bytes that have not been read, or the stream has ended.
    pub fn has_input(&mut self, token: Token) -> bool {
        let source = find(&mut self.sources, token);
        source.received.count() > 0 || source.ended.is_some()
    }

    /// Whether all taken bytes have been sent.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if not. Then [`arm`](Poller::arm) for writing reports when they have been sent.
    /// The errors of `send(2)`.
    pub fn all_sent(&mut self, token: Token) -> io::Result<()> {
        let source = find(&mut self.sources, token);
        if source.sending.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        source.failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Ends the watch over `descriptor` and closes it after all taken bytes have been sent. Bytes
    /// not sent within half a minute are lost.
    pub fn close(&mut self, descriptor: OwnedFd, token: Token) {
        let busy = self.leave(token);
        if busy { self.queue.close(descriptor) } else { drop(descriptor) }
    }
}

// Readiness, for operations that the kernel does not do by itself.

impl Poller for Ring {
    fn arm(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        direction: Direction,
    ) -> io::Result<()> {
        let source = find(&mut self.sources, token);
        let (is_coming, purpose, flags) = match direction {
            Direction::Read => (source.reading != Reading::Not, Purpose::PollRead, READ),
            Direction::Write => (source.sending.is_some(), Purpose::PollWrite, WRITE),
        };
        if !is_coming && !std::mem::replace(&mut source.polled[direction as usize], true) {
            let each_time = direction == Direction::Write;
            self.queue.poll(descriptor, flags, each_time, name(purpose, source.generation, token));
        }
        Ok(())
    }

    fn forget(&mut self, _descriptor: BorrowedFd<'_>, token: Token) {
        if self.leave(token) {
            // Submits the requests before the descriptor's number can mean another file.
            self.queue.submit();
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let mut left = timeout;
        let start = timeout.filter(|timeout| !timeout.is_zero()).map(|_| Instant::now());
        loop {
            let any = self.round(left, events)?;
            // A completion without an event does not end the wait.
            if !any || !events.is_empty() || left.is_some_and(|left| left.is_zero()) {
                break;
            }
            left =
                start.zip(timeout).map(|(start, timeout)| timeout.saturating_sub(start.elapsed()));
        }
        self.give_up_lingering();
        Ok(())
    }

    fn ring(&mut self) -> Option<&mut Ring> {
        Some(self)
    }
}

// Completions.

impl Ring {
    /// Makes the one system call, and notes the completions. True if there was a completion.
    fn round(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<bool> {
        self.queue.submit_and_wait(timeout)?;
        let mut any = false;
        while let Some(completion) = self.queue.next() {
            any = true;
            events.extend(self.complete(completion));
        }
        Ok(any)
    }

    /// Notes a completion, and returns its event, if there is one.
    fn complete(&mut self, completion: Completion) -> Option<Event> {
        let (purpose, generation, token) = parts(completion.name);
        if purpose != Purpose::Nothing && !completion.more {
            self.queue.ended();
        }
        let source = match purpose {
            Purpose::Nothing => return None,
            Purpose::Send => return self.landed(Flight(token.0), completion.result),
            _ => find(&mut self.sources, token),
        };
        if source.generation != generation {
            self.return_what_comes_late(purpose, completion);
            return None;
        }
        match purpose {
            Purpose::PollRead => return Some(polled(source, token, Direction::Read, &completion)),
            Purpose::PollWrite => {
                return Some(polled(source, token, Direction::Write, &completion));
            }
            Purpose::Accept => accepted(source, completion),
            _ => self.received(token, &completion),
        }
        Some(Event { token, readable: true, writable: false, hangup: false })
    }

    fn received(&mut self, token: Token, completion: &Completion) {
        let source = find(&mut self.sources, token);
        if let (Some(number), Ok(length)) = (completion.buffer, completion.result) {
            self.queue.buffers.append(&mut source.received, number, length);
        }
        if completion.more {
            if source.reading == Reading::Goes && source.received.count() >= WAITING {
                source.reading = Reading::Stops;
                self.queue.cancel(name(Purpose::Receive, source.generation, token));
            }
            return;
        }
        source.reading = Reading::Not;
        match completion.result {
            Ok(0) => source.ended = Some(Ok(())),
            // AGAIN: another call had set the socket to non-blocking mode.
            Ok(_) | Err(Errno::CANCELED | Errno::AGAIN) => {}
            Err(Errno::NOBUFS) => {
                source.starved = true;
                self.queue.buffers.grow();
            }
            Err(error) => source.ended = Some(Err(error)),
        }
    }

    fn landed(&mut self, flight: Flight, result: Result<u32, Errno>) -> Option<Event> {
        let length = self.queue.sends.length(flight);
        let owner = self.queue.sends.land(flight);
        let source = find(&mut self.sources, owner.token);
        if source.generation != owner.generation {
            return None;
        }
        source.sending = None;
        source.failed = match result {
            Ok(count) if count as usize == length => None,
            // The kernel sends fewer bytes only if the connection has failed.
            Ok(_) => Some(Errno::PIPE),
            Err(error) => Some(error),
        };
        Some(Event { token: owner.token, readable: false, writable: true, hangup: false })
    }

    /// Returns the descriptor or the buffer of a completion that comes after its source is gone.
    fn return_what_comes_late(&mut self, purpose: Purpose, completion: Completion) {
        if let Some(number) = completion.buffer {
            let mut nobodys = Chain::default();
            self.queue.buffers.append(&mut nobodys, number, completion.result.unwrap_or(0));
            self.queue.buffers.clear(&mut nobodys);
        }
        if purpose == Purpose::Accept {
            // SAFETY: only `Queue::accept` is given a name of this purpose.
            drop(unsafe { completion.into_descriptor() });
        }
    }

    /// Ends the watch over a source. True if some request still names its descriptor, submitted or
    /// not.
    fn leave(&mut self, token: Token) -> bool {
        let Some(source) = self.sources.get_mut(token.0 as usize) else { return false };
        let next = Source {
            generation: source.generation.wrapping_add(1) & GENERATIONS,
            ..Source::default()
        };
        let mut source = std::mem::replace(source, next);
        self.queue.buffers.clear(&mut source.received);
        let requests = [
            (source.reading == Reading::Goes && source.accepted.is_none(), Purpose::Receive),
            (source.reading == Reading::Goes && source.accepted.is_some(), Purpose::Accept),
            (source.polled[0], Purpose::PollRead),
            (source.polled[1], Purpose::PollWrite),
        ];
        let mut busy = source.reading == Reading::Stops;
        for (_, purpose) in requests.into_iter().filter(|(goes, _)| *goes) {
            busy = true;
            self.queue.cancel(name(purpose, source.generation, token));
        }
        if let Some(flight) = source.sending {
            busy = true;
            let generation = self.queue.sends.generation(flight);
            self.lingering.push_back((flight, generation, Instant::now() + LINGER));
        }
        busy
    }

    fn give_up_lingering(&mut self) {
        while let Some(&(flight, generation, end)) = self.lingering.front() {
            if self.queue.sends.generation(flight) == generation {
                if Instant::now() < end {
                    break;
                }
                self.queue.cancel(name(Purpose::Send, 0, Token(flight.0)));
            }
            self.lingering.pop_front();
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let end = Instant::now() + LAST_LINGER;
        let mut ignored = Vec::new();
        while self.queue.sends.count() > 0 && Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(_) = self.round(Some(left), &mut ignored) else { break };
        }
        // By its name, the kernel finds a request at once. Without names, it searches all requests
        // for each one, which took three seconds for 15,000.
        for index in 0..self.sources.len() {
            self.leave(Token(index as u32));
        }
        // After an error, requests under way keep their memory: see the drop of the queue.
        let _ = self.queue.end_all(|queue, completion| {
            let (purpose, ..) = parts(completion.name);
            if purpose != Purpose::Nothing && !completion.more {
                queue.ended();
            }
            if purpose == Purpose::Accept {
                // SAFETY: only `Queue::accept` is given a name of this purpose.
                drop(unsafe { completion.into_descriptor() });
            }
        });
    }
}

fn accepted(source: &mut Source, completion: Completion) {
    if !completion.more {
        source.reading = Reading::Not;
    }
    // SAFETY: only `Queue::accept` gets a name of this purpose, and `complete` has chosen this
    // function by the name.
    match unsafe { completion.into_descriptor() } {
        Ok(descriptor) => source.accepted.get_or_insert_default().push_back(descriptor),
        Err(Errno::CANCELED) => {}
        Err(error) => source.ended = Some(Err(error)),
    }
}

fn polled(
    source: &mut Source,
    token: Token,
    direction: Direction,
    completion: &Completion,
) -> Event {
    source.polled[direction as usize] = completion.more;
    // A failed poll is a report too: the next attempt returns the error.
    let bits = completion.result.unwrap_or(i32::from(FAILED.bits()).cast_unsigned());
    let flags = PollFlags::from_bits_retain(bits as _);
    Event {
        token,
        readable: flags.intersects(READ | FAILED),
        // A finished poll must be requested again, after an attempt that would block.
        writable: flags.intersects(WRITE | FAILED)
            || direction == Direction::Write && !completion.more,
        hangup: flags.intersects(FAILED | PollFlags::RDHUP),
    }
}

/// The source of a token, made at the token's first use.
#[inline]
fn find(sources: &mut Vec<Source>, token: Token) -> &mut Source {
    let index = token.0 as usize;
    if index >= sources.len() {
        sources.resize_with(index + 1, Source::default);
    }
    &mut sources[index]
}
