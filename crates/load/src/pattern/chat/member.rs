//! One member of a room. The member says its lines of a round, hears the lines of the others, and
//! waits for all members.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duality_runtime::net::TcpStream;
use duality_runtime::time;

use super::hearing::Hearing;
use super::room::{Broken, Room, Round};
use crate::connection::Load;
use crate::failure::Failure;

/// The number of bytes to read at once, which holds many hundred lines.
const BUFFER_SIZE: usize = 16 * 1024;

/// How soon a member that hears nothing notices that the room was broken off.
const ATTENTION: Duration = Duration::from_millis(100);

/// The time that the members of a broken room wait for the server to close their connections. Late
/// bytes belong to no room, and must not reach a later room.
const LONGEST_PARTING: Duration = Duration::from_secs(1);

/// A member that has joined.
pub(super) struct Member {
    index: usize,
    stream: TcpStream,
    room: Arc<Room>,
    load: Arc<Load>,
    hearing: Hearing,
    buffer: Box<[u8]>,
    /// The number of bytes of an incomplete line, or of those that came between two rounds.
    filled: usize,
    starts: Vec<Instant>,
    /// Start and end of the very last delivery. The delivery is right only if no bytes follow it.
    last: Option<(Instant, Instant)>,
    /// The mistake in the bytes after the last delivery, if any came.
    excess: Option<Failure>,
}

/// The reason why a member stops early.
enum End {
    /// The member itself had a failure.
    Failed(Failure),
    /// Another member had a failure.
    Broken,
}

impl Member {
    pub(super) fn new(index: usize, stream: TcpStream, room: Arc<Room>, load: Arc<Load>) -> Self {
        let hearing = Hearing::new(index, room.members());
        Self {
            index,
            stream,
            room,
            load,
            hearing,
            buffer: vec![0; BUFFER_SIZE].into(),
            filled: 0,
            starts: Vec::new(),
            last: None,
            excess: None,
        }
    }

    /// Talks until all lines are said or the room is broken off, and leaves.
    pub(super) async fn run(mut self) {
        match self.talk().await {
            Ok(()) => self.leave().await,
            Err(end) => {
                if let End::Failed(failure) = end {
                    self.fail(&failure);
                }
                self.load.recorder.waits(self.index, None);
                let _ = time::timeout(LONGEST_PARTING, self.part()).await;
            }
        }
    }

    async fn talk(&mut self) -> Result<(), End> {
        let attention = ATTENTION.min(self.load.reply_timeout);
        self.stream.set_read_timeout(Some(attention)).map_err(Failure::Io)?;
        let mut round = self.room.round();
        while !round.slots.is_empty() {
            self.say().await?;
            self.hear(&round).await?;
            self.room.pass(self.index, &self.hearing, self.load.recorder.requests_ended())?;
            self.load.recorder.waits(self.index, None);
            round = self.next(&round).await?;
        }
        Ok(())
    }

    /// Waits until all members have heard `round`. Meanwhile looks after the connection: if its
    /// server has ended, the others may wait for this member's lines, which never reach them.
    async fn next(&mut self, round: &Round) -> Result<Round, End> {
        loop {
            if let Ok(next) = time::timeout(ATTENTION, self.room.next(round)).await {
                return Ok(next?);
            }
            let rest = &mut self.buffer[self.filled..];
            if rest.is_empty() {
                continue;
            }
            match time::timeout(Duration::ZERO, self.stream.read(rest)).await {
                Ok(Ok(0)) => return Err(Failure::ClosedEarly { received: 0 }.into()),
                // They are checked in the next round, which may have begun.
                Ok(Ok(count)) => self.filled += count,
                Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => {
                    return Err(Failure::from_transfer(error, 0).into());
                }
                Ok(Err(_)) | Err(time::Elapsed) => {}
            }
        }
    }

    /// Tells the room why this member stops talking. A member that was lost with its server costs
    /// one failed request.
    fn fail(&self, failure: &Failure) {
        let recorder = &self.load.recorder;
        // The failed request has ended before the next round is planned.
        if self.room.lose(self.index, failure, recorder.requests_ended() + 1) {
            recorder.failure(self.index, failure);
        } else if self.room.break_off() {
            recorder.break_off(failure);
        }
    }

    async fn say(&mut self) -> Result<(), Failure> {
        let mut lines = Vec::new();
        self.room.say(self.index, &mut self.hearing, &mut lines);
        if !self.hearing.is_complete() {
            self.load.recorder.waits(self.index, Some(Instant::now()));
        }
        // Meanwhile no task reads, but the due lines fit into the kernel's buffers.
        self.stream.write_all(&lines).await.map_err(|error| Failure::from_transfer(error, 0))
    }

    /// Hears all due lines of this round.
    async fn hear(&mut self, round: &Round) -> Result<(), End> {
        let mut waiting_since = Instant::now();
        if self.filled > 0 {
            self.check(0, waiting_since, round.last)?;
        }
        while !self.hearing.is_complete() {
            match self.stream.read(&mut self.buffer[self.filled..]).await {
                // A conversation has no replies that could be cut short.
                Ok(0) => return Err(Failure::ClosedEarly { received: 0 }.into()),
                Ok(count) => {
                    waiting_since = Instant::now();
                    self.check(count, waiting_since, round.last)?;
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    if self.room.is_broken() {
                        return Err(End::Broken);
                    }
                    if waiting_since.elapsed() >= self.load.reply_timeout {
                        return Err(Failure::TimedOut.into());
                    }
                    self.room.tell_losses(&mut self.hearing);
                }
                Err(error) => {
                    return Err(Failure::from_transfer(error, 0).into());
                }
            }
        }
        Ok(())
    }

    /// Checks and records the lines in the buffer, after `count` more bytes have come at the moment
    /// `end`.
    fn check(&mut self, count: usize, end: Instant, last_round: bool) -> Result<(), Failure> {
        self.filled += count;
        self.starts.clear();
        let bytes = &self.buffer[..self.filled];
        let checked = self.room.hear(&mut self.hearing, bytes, &mut self.starts);
        let all_heard = last_round && self.hearing.is_complete();
        if all_heard {
            self.last = self.starts.pop().map(|start| (start, end));
        }
        // The lines before a wrong one were right.
        let taken = *checked.as_ref().unwrap_or(&0);
        self.load.recorder.replies(self.index, &self.starts, end, taken as u64);
        if let Err(failure) = checked {
            if !all_heard {
                return Err(failure);
            }
            self.excess = Some(failure);
        }
        self.buffer.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        Ok(())
    }

    /// Leaves a room after all lines were said. No further bytes may come.
    async fn leave(mut self) {
        let parted = time::timeout(self.load.reply_timeout, self.part()).await;
        let failure = match parted {
            _ if self.excess.is_some() => self.excess,
            Ok(Ok(0)) if self.filled == 0 => None,
            Ok(Ok(_)) => Some(Failure::WrongBytes("a line came after the last")),
            Ok(Err(failure)) => Some(failure),
            Err(time::Elapsed) => Some(Failure::TimedOut),
        };
        let recorder = &self.load.recorder;
        match (failure, self.last) {
            (None, Some((start, end))) => recorder.replies(self.index, &[start], end, 0),
            (Some(failure), Some(_)) => recorder.failure(self.index, &failure),
            // No line was due to this member in the last round.
            (Some(failure), None) => recorder.break_off(&failure),
            (None, None) => {}
        }
    }

    /// Ends this side of the connection, and waits for the other end. Returns the number of further
    /// bytes.
    async fn part(&mut self) -> Result<u64, Failure> {
        let mut received = 0;
        // A connection that the server has reset has already ended.
        if self.stream.shutdown(Shutdown::Write).await.is_err() {
            return Ok(received);
        }
        loop {
            match self.stream.read(&mut self.buffer).await {
                Ok(0) => return Ok(received),
                Ok(count) => received += count as u64,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => match Failure::from_transfer(error, received) {
                    Failure::Reset { .. } => return Ok(received),
                    failure => return Err(failure),
                },
            }
        }
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        End::Failed(failure)
    }
}

impl From<Broken> for End {
    fn from(Broken: Broken) -> Self {
        End::Broken
    }
}
