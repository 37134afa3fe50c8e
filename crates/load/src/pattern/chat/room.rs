//! The shared state of a room's members: their numbers, the lines of this round, and the members
//! that have heard all lines.
//!
//! Lines are said in slots. With l members, slot i belongs to member i modulo l, so all members
//! speak equally often. A round is a stretch of slots, and need not hold a slot for each member. So
//! the lines of a round, and what each member must hear, are known beforehand.
//!
//! All members are tasks of one loop; the locks are never contended for, and no task waits with one
//! held.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use duality_runtime::sync::Notify;

use super::Plan;
use super::hearing::Hearing;
use super::said::{Numbers, Said, delivered, text};
use crate::failure::Failure;

/// The delivered lines of a round have at most so many bytes. So no member is farther behind than
/// this, which is well within the backlog of any server.
const LONGEST_ROUND: usize = 64 * 1024;

/// What the members share.
pub(super) struct Room {
    numbers: Numbers,
    /// Slots of a round, and of all rounds.
    slots_of_round: u64,
    slots: u64,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    round: Round,
    /// Members that have heard all of the round.
    done: usize,
    /// The lines that each member has said in this round.
    said: Vec<Said>,
    /// The order of the round's lines, as members of even index and members of odd index heard it.
    orders: [Option<u64>; 2],
    broken: bool,
}

/// A stretch of slots; an empty one comes after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) slots: Range<u64>,
    pub(super) last: bool,
}

/// The room has been broken off.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Room {
    pub(super) fn new(numbers: Numbers, plan: Plan) -> Self {
        let members = numbers.count() as u64;
        let said = Said { at: Instant::now(), lines: Vec::new(), length: 0 };
        let highest = numbers.highest();
        let longest_line = delivered(highest, &text(members, 0)).len();
        let most = members * u64::from(plan.lines);
        let slots_of_round = ((LONGEST_ROUND / longest_line) as u64).min(most).max(1);
        let others = members.saturating_sub(1).max(1);
        let slots = plan.deliveries.map_or(u64::MAX, |deliveries| deliveries.div_ceil(others));
        let state = State {
            round: Round { slots: 0..0, last: false },
            done: 0,
            said: vec![said; numbers.count()],
            orders: [None; 2],
            broken: false,
        };
        let room = Self {
            numbers,
            slots_of_round,
            slots,
            state: Mutex::new(state),
            changed: Notify::new(),
        };
        room.lock().begin_round(&room);
        room
    }

    pub(super) fn members(&self) -> usize {
        self.numbers.count()
    }

    /// The round that is on.
    pub(super) fn round(&self) -> Round {
        self.lock().round.clone()
    }

    /// The lines that `member` has to say in `slots`.
    pub(super) fn lines(&self, member: usize, slots: &Range<u64>) -> Range<u64> {
        let before =
            |slot: u64| (slot + (self.members() - 1 - member) as u64) / self.members() as u64;
        before(slots.start)..before(slots.end)
    }

    /// Has `member` say its lines of this round now. Appends them to `sent`, in the form for the
    /// wire.
    pub(super) fn say(&self, member: usize, sent: &mut Vec<u8>) {
        let mut state = self.lock();
        let lines = self.lines(member, &state.round.slots);
        let said = &mut state.said[member];
        said.at = Instant::now();
        for line in lines {
            let text = text(member as u64, line);
            let delivered = delivered(self.numbers.of(member), &text);
            sent.extend_from_slice(text.as_bytes());
            sent.push(b'\n');
            said.length = delivered.len();
            said.lines.extend_from_slice(delivered.as_bytes());
        }
    }

    /// Checks the bytes that a member has heard; see [`Hearing::take`].
    pub(super) fn hear(
        &self,
        hearing: &mut Hearing,
        bytes: &[u8],
        starts: &mut Vec<Instant>,
    ) -> Result<usize, Failure> {
        hearing.take(bytes, &self.numbers, &self.lock().said, starts)
    }

    /// Compares the order in which `member` has heard this round with that of others.
    pub(super) fn compare_order(&self, member: usize, order: u64) -> Result<(), Failure> {
        let mut state = self.lock();
        if *state.orders[member % 2].get_or_insert(order) != order {
            return Err(Failure::WrongBytes("members have heard lines in different orders"));
        }
        Ok(())
    }

    /// Waits until all members have heard all of `round`, and returns the next round.
    pub(super) async fn next(&self, round: &Round) -> Result<Round, Broken> {
        self.pass();
        loop {
            {
                let state = self.lock();
                if state.broken {
                    return Err(Broken);
                }
                if state.round.slots != round.slots {
                    return Ok(state.round.clone());
                }
            }
            self.changed.notified().await;
        }
    }

    fn pass(&self) {
        let mut state = self.lock();
        state.done += 1;
        if state.done == self.members() {
            state.begin_round(self);
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Breaks the room off. True if it had not been broken off before.
    pub(super) fn break_off(&self) -> bool {
        let first = !std::mem::replace(&mut self.lock().broken, true);
        self.changed.notify_waiters();
        first
    }

    pub(super) fn is_broken(&self) -> bool {
        self.lock().broken
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin_round(&mut self, room: &Room) {
        let start = self.round.slots.end;
        let end = start.saturating_add(room.slots_of_round).min(room.slots);
        self.round = Round { slots: start..end, last: end == room.slots };
        self.done = 0;
        self.orders = [None; 2];
        // A line that arrives before it is said in this round is an echo of the last round, and
        // wrong.
        for said in &mut self.said {
            said.lines.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use duality_runtime::block_on;

    use super::*;

    fn room(members: u64, lines: u32, deliveries: Option<u64>) -> Room {
        let numbers = Numbers::new((1..=members).collect()).unwrap();
        Room::new(numbers, Plan { lines, deliveries })
    }

    #[test]
    fn every_slot_is_the_line_of_one_member() {
        let room = room(3, 100, None);
        for (slots, expected) in [
            (0..3, [0..1, 0..1, 0..1]),
            (0..2, [0..1, 0..1, 0..0]),
            (2..7, [1..3, 1..2, 0..2]),
            (300..600, [100..200, 100..200, 100..200]),
        ] {
            let lines = [0, 1, 2].map(|member| room.lines(member, &slots));
            assert_eq!(lines, expected, "{slots:?}");
        }
    }

    #[test]
    fn rounds_are_as_long_as_asked_and_never_longer_than_the_bound() {
        assert_eq!(room(3, 7, None).round().slots, 0..21);
        let most = room(1_000, 1_000, None).round().slots.end;
        let line = delivered(1_000, &text(999, 0)).len() as u64;
        assert!(most * line <= LONGEST_ROUND as u64 && most > 1_000, "{most}");
        // With very many members, not all say something in each round.
        assert!(room(100_000, 100, None).round().slots.end < most);
    }

    #[test]
    fn the_last_round_ends_with_the_last_delivery() {
        // 2 members, 5 lines in all, at most 2 in a round.
        let room = room(2, 1, Some(5));
        for (slots, last) in [(0..2, false), (2..4, false), (4..5, true)] {
            let round = room.round();
            assert_eq!(round, Round { slots, last });
            room.pass();
            room.pass();
        }
        assert!(room.round().slots.is_empty());
    }

    #[test]
    fn who_waits_for_a_room_that_breaks_off_is_told() {
        let room = room(2, 1, None);
        let round = room.round();
        assert!(room.break_off() && !room.break_off());
        assert_eq!(block_on(room.next(&round)), Err(Broken));
    }

    #[test]
    fn orders_are_compared_among_members_who_heard_the_same_lines() {
        let room = room(4, 1, None);
        assert!(room.compare_order(0, 5).is_ok() && room.compare_order(1, 6).is_ok());
        assert!(room.compare_order(2, 5).is_ok());
        assert!(room.compare_order(3, 5).is_err());
    }
}
