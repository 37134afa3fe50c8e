//! A socket in the block world: the kernel thread waits for the socket in place.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::task::{Context, Poll};
use std::time::Duration;

use duality_poller::Direction;
use rustix::net::sockopt::{self, Timeout};

use super::{Access, Done, Moved, Socket, TimeLimit};
use crate::drain::{self, DrainTarget, Listed};
use crate::places::{self, Place, SILENCE};
use crate::threads;
use crate::visibility::{self, Wait, thread_slots};
use crate::wait::{Waited, ambient_deadline};
use crate::world::Here;
use crate::world::block::{self, Ready, Waiting};

impl Socket {
    /// Performs one operation, as [`Socket::poll`] does.
    pub(super) fn poll_blocking<T>(
        &mut self,
        context: &Context<'_>,
        direction: Direction,
        time_limit: &mut TimeLimit,
        attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        if let Some(Waited::Pending) = Here::Block.spend(context) {
            return Poll::Pending;
        }
        if let Err(error) = self.prepare_to_block() {
            return Poll::Ready(Err(error));
        }
        let _seen = thread_slots::show_wait(Wait::descriptor(direction, self.as_fd().as_raw_fd()));
        places::here(|place| {
            let place = place.filter(|_| self.may_lose_its_place());
            if place.is_some() {
                places::count(direction == Direction::Read);
            }
            let place = place.filter(|_| direction == Direction::Read);
            self.wait_in_place(direction, time_limit, place, attempt)
        })
    }

    fn prepare_to_block(&mut self) -> io::Result<()> {
        self.make_blocking()?;
        self.list()
    }

    /// Lists the socket, if a drain ends its input.
    pub(super) fn list(&mut self) -> io::Result<()> {
        if let Some(input) = self.ends_at_drain
            && self.listed.is_none()
            && !self.outlives_drain
        {
            self.listed = Some(Listed::new(self.as_fd(), input)?);
        }
        Ok(())
    }

    fn wait_in_place<T>(
        &mut self,
        direction: Direction,
        time_limit: &mut TimeLimit,
        place: Option<&Place<'_>>,
        mut attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        if place.is_some() && !self.is_sliced && time_limit.is_longer_than(SILENCE) {
            self.set_receive_limit(Some(SILENCE))?;
            self.is_sliced = true;
        }
        // Handles of one connection share the kernel's limit, so another handle's limit may end a
        // wait. With a single handle, the length of the limit tells when the wait began, without a
        // reading of the clock.
        let start = self.duplicated.then(threads::now);
        let mut looks_first = place.is_some_and(Place::looks_first);
        // The kernel knows the socket's own time limit, but not the ambient one.
        let at_once = ambient_deadline().is_some();
        loop {
            let waiting = &Waiting { direction, place, looks_first };
            let own = |now| time_limit.deadline(start.unwrap_or(now));
            match block::wait_for_descriptor(self.as_fd(), waiting, own)? {
                Ready::Yes => {}
                Ready::Cancelled => return Poll::Pending,
                Ready::Displaced => return Poll::Ready(Ok(Done::Drained)),
            }
            visibility::count(|counters| counters.attempts.add(1));
            let may_begin = self.is_new;
            let waits = !at_once;
            let access = || Access { may_begin, at_once, waits, ..self.access(None, direction) };
            match block::retry(|| attempt(access())) {
                Ok(moved) => {
                    self.is_new &= direction == Direction::Write;
                    return Poll::Ready(Ok(Done::Moved(moved.value)));
                }
                // At a drain, a listener has accepted all connections then.
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && at_once
                        && !(direction == Direction::Read
                            && self.ends_at_drain.is_some()
                            && drain::requested()) => {}
                // A signal has ended connect(2), or another handle of the connection has put it
                // into non-blocking mode.
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && direction == Direction::Write
                        && !time_limit.is_limited() =>
                {
                    looks_first = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let now = threads::now();
                    let began = start.or(self.is_sliced.then(|| now - SILENCE));
                    let deadline = began.map_or(Some(now), |began| time_limit.deadline(began));
                    if direction == Direction::Write || deadline.is_some_and(|end| end <= now) {
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                    looks_first = true;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Limits how long the kernel lets one read wait, as a time limit of `limit` needs in the block
    /// world.
    pub(in crate::net) fn limit_reads(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let is_longer = limit.is_none_or(|limit| limit > SILENCE);
        let in_place = is_longer
            && self.may_lose_its_place()
            && (self.is_sliced || places::here(|place| place.is_some()));
        if in_place && self.is_sliced {
            return Ok(());
        }
        self.set_receive_limit(if in_place { Some(SILENCE) } else { limit })?;
        self.is_sliced = in_place;
        Ok(())
    }

    fn set_receive_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        self.set_wait_limit(Timeout::Recv, limit)
    }

    /// Limits how long the kernel lets one call wait (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
    pub(in crate::net) fn set_wait_limit(
        &self,
        which: Timeout,
        limit: Option<Duration>,
    ) -> io::Result<()> {
        if let Some(channel) = &self.channel
            && channel.waits_in_place()
        {
            channel.set_wait_limit(which == Timeout::Recv, limit);
            return Ok(());
        }
        visibility::count(|counters| counters.other_calls.add(1));
        Ok(sockopt::set_socket_timeout(self.as_fd(), which, limit)?)
    }

    /// Whether an attempt may wait in place: on a network, or on that of a simulated thread.
    pub(in crate::net) fn waits_in_place(&self) -> bool {
        self.channel
            .as_ref()
            .is_none_or(|channel| !channel.is_injected() || channel.waits_in_place())
    }

    /// Whether this is the only handle of a client's connection. With two handles, one may wait for
    /// long while the other writes.
    fn may_lose_its_place(&self) -> bool {
        let is_a_clients = self.ends_at_drain == Some(DrainTarget::Connection);
        is_a_clients && !self.duplicated && self.waits_in_place()
    }
}
