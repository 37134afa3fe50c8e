//! The state of a player across servers, shared by its two tasks and its desk.

use std::sync::{Mutex, MutexGuard, PoisonError};

use duality_runtime::sync::Notify;

use super::{
    message::Place,
    player::{LEFT, Output, PLAY_FIRST, PLAY_SECOND},
};

/// The state that the tasks of one player and its desk share.
pub(super) struct Player {
    pub(super) number: u64,
    pub(super) output: Output,
    state: Mutex<Standing>,
    /// Wakes the task that reads from the client.
    pub(super) reader: Notify,
    /// Wakes the task that writes to the client.
    pub(super) writer: Notify,
}

#[derive(Default)]
pub(super) struct Standing {
    /// The player waits until another player asks it.
    pub(super) waits: bool,
    /// The player that it has asked and that has not answered.
    pub(super) asked: Option<Place>,
    pub(super) other: Option<Place>,
    /// The bytes to write next: the word that begins the game, then the lines of the other player.
    pub(super) play: Option<&'static [u8]>,
    pub(super) lines: Option<Vec<u8>>,
    /// The opponent's writer has not written the last lines yet.
    pub(super) unwritten: bool,
    /// Set when the game has ended: the message to the player, or empty if the connection has
    /// ended.
    pub(super) end: Option<&'static [u8]>,
}

impl Player {
    /// A new player.
    pub(super) fn new(number: u64, output: Output) -> Self {
        Self {
            number,
            output,
            state: Mutex::default(),
            reader: Notify::new(),
            writer: Notify::new(),
        }
    }

    pub(super) fn standing(&self) -> MutexGuard<'_, Standing> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a game with the player `from`, which asks. Returns whether it has begun.
    pub(super) fn is_asked(&self, from: Place) -> bool {
        let mut standing = self.standing();
        if !standing.waits || standing.end.is_some() {
            return false;
        }
        standing.waits = false;
        standing.begin(from, PLAY_FIRST);
        drop(standing);
        self.writer.notify_one();
        true
    }

    /// Begins a game with the player `from`, which has said yes. Returns whether it has begun.
    pub(super) fn is_answered(&self, from: Place) -> bool {
        let mut standing = self.standing();
        if standing.asked != Some(from) || standing.end.is_some() {
            return false;
        }
        standing.asked = None;
        standing.begin(from, PLAY_SECOND);
        drop(standing);
        self.writer.notify_one();
        self.reader.notify_one();
        true
    }

    /// The player `from`, which it asks, does not play.
    pub(super) fn is_refused(&self, from: Place) {
        let mut standing = self.standing();
        if standing.asked == Some(from) {
            standing.stops_asking();
            drop(standing);
            self.reader.notify_one();
        }
    }

    /// The player `from` has left. It may have said yes, and this player has not heard it.
    pub(super) fn is_left(&self, from: Place) {
        let other = self.standing().other;
        match other {
            Some(other) if other == from => self.ends(LEFT),
            Some(_) => {}
            None => self.is_refused(from),
        }
    }

    /// Lines of the player `from` have come. The first ones may come before its answer.
    pub(super) fn is_told(&self, from: Place, lines: &[u8]) {
        let mut standing = self.standing();
        if standing.other.or(standing.asked) == Some(from) {
            standing.lines = Some(lines.to_vec());
            drop(standing);
            self.writer.notify_one();
        }
    }

    /// The player `from` has got the last lines.
    pub(super) fn is_heard(&self, from: Place) {
        let mut standing = self.standing();
        if standing.other == Some(from) {
            standing.unwritten = false;
            drop(standing);
            self.reader.notify_one();
        }
    }

    /// Ends its game, unless it has ended.
    pub(super) fn ends(&self, word: &'static [u8]) {
        self.standing().end.get_or_insert(word);
        self.reader.notify_one();
        self.writer.notify_one();
    }

    pub(super) fn end(&self) -> Option<&'static [u8]> {
        self.standing().end
    }
}

impl Standing {
    /// Gives up the question. Lines that came with its answer are no longer wanted.
    pub(super) fn stops_asking(&mut self) {
        self.asked = None;
        if self.other.is_none() {
            self.lines = None;
        }
    }

    fn begin(&mut self, other: Place, word: &'static [u8]) {
        (self.other, self.play) = (Some(other), Some(word));
    }
}
