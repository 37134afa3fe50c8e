//! The shared state of a room's members: their numbers, the lines of this round, and the members
//! that have heard all lines.
//!
//! Lines are said in slots. With l members, slot i belongs to member i modulo l, so all members
//! speak equally often. A round is a stretch of slots, and may have no slot for some members. So
//! the lines of a round, and the lines that each member must hear, are known beforehand.
//!
//! If the room is on several servers, one of them may end, and its members are lost. All other
//! members go on. The number of a lost member's last lines that reached the room is unknown. So all
//! other members must have heard the same first lines of it, in the same order. The comparison
//! comes once a whole round has passed without a loss, since the last lines may be late.
//!
//! All members are tasks of one loop. Their locks are never contended, and no task waits while it
//! holds one.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use duality_runtime::sync::Notify;

use super::RoomRound;
use super::hearing::{Beginning, Digest, Hearing};
use super::said::{Numbers, Said, Speaker, delivered, text};
use crate::failure::Failure;

/// The delivered lines of a round have at most this many bytes. So no member is farther behind than
/// this, which is well within the backlog of any server.
const LONGEST_ROUND: usize = 64 * 1024;

/// The state that the members share.
pub(super) struct Room {
    numbers: Numbers,
    /// Whether members may be lost.
    is_across: bool,
    /// The most slots of a round.
    slots_of_round: u64,
    /// The number of deliveries after which the load ends, if it has an end.
    deliveries: Option<u64>,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    round: Round,
    /// The members that speak in this round, in the order of their slots.
    talking: Vec<usize>,
    /// The number of present members that have heard the whole round, and which ones.
    done: usize,
    has_passed: Vec<bool>,
    /// The number of present members.
    present: usize,
    /// The lines of each member in this round.
    said: Vec<Said>,
    /// The members that were lost, each with its number of lines in the round of its loss.
    losses: Vec<(usize, u64)>,
    /// The number of members when this round began, and when the last round began.
    losses_before: [usize; 2],
    /// The digests of this round: one of the members with an even index, one of those with an odd
    /// index. The first member that is done gives the digest.
    digests: [Option<Digest>; 2],
    /// Some member has heard other lines.
    differ: bool,
    broken: bool,
}

/// A stretch of slots. An empty one comes after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) slots: Range<u64>,
    pub(super) last: bool,
}

/// The room has been broken off.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Room {
    /// A room of the members with these numbers. They are on one server, or (`is_across`) on
    /// several.
    pub(super) fn new(numbers: Numbers, is_across: bool, round: RoomRound) -> Self {
        let members = numbers.count() as u64;
        let longest_line = delivered(numbers.highest(), &text(members, 0)).len();
        let most = members * u64::from(round.lines);
        let slots_of_round = ((LONGEST_ROUND / longest_line) as u64).min(most).max(1);
        let state = State {
            round: Round { slots: 0..0, last: false },
            talking: Vec::new(),
            done: 0,
            has_passed: vec![false; numbers.count()],
            present: numbers.count(),
            said: vec![Said::nothing(); numbers.count()],
            losses: Vec::new(),
            losses_before: [0; 2],
            digests: [None; 2],
            differ: false,
            broken: false,
        };
        let room = Self {
            numbers,
            is_across,
            slots_of_round,
            deliveries: round.deliveries,
            state: Mutex::new(state),
            changed: Notify::new(),
        };
        room.lock().begin_round(&room, 0);
        room
    }

    pub(super) fn members(&self) -> usize {
        self.numbers.count()
    }

    /// The current round.
    pub(super) fn round(&self) -> Round {
        self.lock().round.clone()
    }

    /// Lets `member` say its lines of this round now: appends them to `sent` in the form for
    /// sending. `hearing` begins its round.
    pub(super) fn say(&self, member: usize, hearing: &mut Hearing, sent: &mut Vec<u8>) {
        let mut state = self.lock();
        let own = state.lines(member);
        let round = &state.round.slots;
        let due = (round.end - round.start) - (own.end - own.start);
        let [losses, last] = state.losses_before;
        hearing.begin(Beginning { due, losses, open: losses > last }, &state.said);
        hearing.note(&state.losses);
        let said = &mut state.said[member];
        said.at = Instant::now();
        for line in own {
            let text = text(member as u64, line);
            let delivered = delivered(self.numbers.of(member), &text);
            sent.extend_from_slice(text.as_bytes());
            sent.push(b'\n');
            said.length = delivered.len();
            said.lines.extend_from_slice(delivered.as_bytes());
        }
    }

    /// Checks the bytes that a member has heard: see [`Hearing::take`].
    pub(super) fn hear(
        &self,
        hearing: &mut Hearing,
        bytes: &[u8],
        starts: &mut Vec<Instant>,
    ) -> Result<usize, Failure> {
        let state = self.lock();
        hearing.note(&state.losses);
        hearing.take(bytes, &self.numbers, &state.said, starts)
    }

    /// Tells a member that hears nothing which other members have been lost.
    pub(super) fn tell_losses(&self, hearing: &mut Hearing) {
        hearing.note(&self.lock().losses);
    }

    /// Notes that a member has heard the whole round. The last member begins the next round, after
    /// `ended` deliveries have ended.
    ///
    /// # Errors
    ///
    /// The error: members have heard different lines.
    pub(super) fn pass(&self, member: usize, hearing: &Hearing, ended: u64) -> Result<(), Failure> {
        let mut state = self.lock();
        state.done += 1;
        state.has_passed[member] = true;
        let digest = hearing.digest(&state.said);
        let others = *state.digests[member % 2].get_or_insert(digest);
        let [one, other] = state.digests.map(|digest| digest.map(|digest| digest.of_the_lost));
        state.differ |=
            others != digest || one.is_some_and(|one| other.is_some_and(|other| one != other));
        if state.done == state.present && state.differ && !state.has_loss() {
            let problem = "members have heard different lines, or in different orders";
            return Err(Failure::WrongBytes(problem));
        }
        self.go_on(state, ended);
        Ok(())
    }

    /// Goes on without `member`, which was lost with its server. Returns false if the room cannot
    /// go on.
    pub(super) fn lose(&self, member: usize, failure: &Failure, ended: u64) -> bool {
        let mut state = self.lock();
        // A member alone has no other member to hear.
        if state.broken || !self.is_across || !is_loss(failure) || state.present <= 2 {
            return false;
        }
        let lines = state.lines(member);
        state.losses.push((member, lines.end - lines.start));
        state.said[member].speaker = Speaker::Lost;
        state.present -= 1;
        state.done -= usize::from(state.has_passed[member]);
        self.go_on(state, ended);
        true
    }

    /// The failure of planned deliveries if members were lost.
    pub(super) fn loss(&self) -> Option<Failure> {
        let is_whole = self.lock().losses.is_empty();
        (!is_whole).then_some(Failure::ClosedEarly { received: 0 })
    }

    /// Begins the next round once all members have heard this one.
    fn go_on(&self, mut state: MutexGuard<'_, State>, ended: u64) {
        if state.done == state.present {
            state.begin_round(self, ended);
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Waits until all members have heard the whole `round`, and returns the next round.
    pub(super) async fn next(&self, round: &Round) -> Result<Round, Broken> {
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

    /// Stops the room before its lines are done. Returns true unless the room was stopped already.
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
    fn begin_round(&mut self, room: &Room, ended: u64) {
        // This many members hear each slot of a present member.
        let others = self.present.saturating_sub(1).max(1) as u64;
        let slots = match room.deliveries {
            None => None,
            Some(_) if self.round.last => Some(0),
            Some(deliveries) => Some(deliveries.saturating_sub(ended).div_ceil(others)),
        };
        let start = self.round.slots.end;
        let end = start + slots.map_or(room.slots_of_round, |slots| slots.min(room.slots_of_round));
        let last = slots.is_some_and(|slots| slots <= room.slots_of_round);
        self.round = Round { slots: start..end, last };
        self.done = 0;
        self.has_passed.fill(false);
        let had_loss = self.has_loss();
        for said in &mut self.said {
            match said.speaker {
                // A line that arrives before it is said in this round is an echo of the last round,
                // and is wrong.
                Speaker::Present => said.lines.clear(),
                Speaker::Lost => said.speaker = Speaker::LostEarlier,
                Speaker::LostEarlier if had_loss => {}
                Speaker::LostEarlier => said.lines.clear(),
            }
        }
        let present = |member: &usize| self.said[*member].speaker == Speaker::Present;
        self.talking = (0..self.said.len()).filter(present).collect();
        self.losses_before = [self.losses.len(), self.losses_before[0]];
        (self.digests, self.differ) = ([None; 2], false);
    }

    /// Whether a member has been lost in this round.
    fn has_loss(&self) -> bool {
        self.losses.len() > self.losses_before[0]
    }

    /// The lines that a member must say in this round.
    fn lines(&self, member: usize) -> Range<u64> {
        let place = self.talking.binary_search(&member).expect("it is present in this round");
        let (place, members) = (place as u64, self.talking.len() as u64);
        let before = |slot: u64| (slot + members - 1 - place) / members;
        before(self.round.slots.start)..before(self.round.slots.end)
    }
}

/// Whether this is the failure that members find if their server ends, or is cut off from the
/// others.
fn is_loss(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Reset { .. } | Failure::ClosedEarly { .. } | Failure::StoreUnavailable
    )
}

#[cfg(test)]
mod tests {
    use duality_runtime::block_on;

    use super::*;

    fn room(members: u64, lines: u32, deliveries: Option<u64>) -> Room {
        let numbers = Numbers::new((1..=members).collect()).unwrap();
        Room::new(numbers, true, RoomRound { lines, deliveries })
    }

    /// Members that say their lines and hear each other's, as one chat delivers them.
    struct Members {
        room: Room,
        hearings: Vec<Hearing>,
        ended: u64,
    }

    impl Members {
        fn of(room: Room) -> Self {
            let hearings = (0..room.members()).map(|member| Hearing::new(member, room.members()));
            Self { hearings: hearings.collect(), room, ended: 0 }
        }

        /// The lines of `members`, in one order.
        fn say(&mut self, members: &[usize]) -> Vec<(usize, String)> {
            let mut chat = Vec::new();
            for &member in members {
                let mut sent = Vec::new();
                self.room.say(member, &mut self.hearings[member], &mut sent);
                let sent = String::from_utf8(sent).unwrap();
                let number = self.room.numbers.of(member);
                chat.extend(sent.lines().map(|line| (member, delivered(number, line))));
            }
            chat
        }

        fn hear(&mut self, member: usize, chat: &[(usize, String)]) -> Result<bool, Failure> {
            let others = chat.iter().filter(|(sender, _)| *sender != member);
            let bytes: String = others.map(|(_, line)| line.as_str()).collect();
            let (hearing, mut starts) = (&mut self.hearings[member], Vec::new());
            self.room.hear(hearing, bytes.as_bytes(), &mut starts)?;
            self.ended += starts.len() as u64;
            Ok(hearing.is_complete())
        }

        fn pass(&self, member: usize) -> Result<(), Failure> {
            self.room.pass(member, &self.hearings[member], self.ended)
        }

        /// A round of `members` without special events.
        fn round(&mut self, members: &[usize]) -> Result<(), Failure> {
            let chat = self.say(members);
            for &member in members {
                assert!(self.hear(member, &chat)?);
            }
            members.iter().try_for_each(|member| self.pass(*member))
        }
    }

    const GONE: Failure = Failure::Reset { received: 0 };

    #[test]
    fn every_slot_is_the_line_of_one_member() {
        let room = room(3, 100, None);
        for (slots, expected) in [
            (0..3, [0..1, 0..1, 0..1]),
            (0..2, [0..1, 0..1, 0..0]),
            (2..7, [1..3, 1..2, 0..2]),
            (300..600, [100..200, 100..200, 100..200]),
        ] {
            let mut state = room.lock();
            state.round.slots = slots.clone();
            assert_eq!([0, 1, 2].map(|member| state.lines(member)), expected, "{slots:?}");
        }
    }

    #[test]
    fn rounds_are_as_long_as_asked_and_never_longer_than_the_bound() {
        assert_eq!(room(3, 7, None).round().slots, 0..21);
        let most = room(1_000, 1_000, None).round().slots.end;
        let line = delivered(1_000, &text(999, 0)).len() as u64;
        assert!(most * line <= LONGEST_ROUND as u64 && most > 1_000, "{most}");
        // With very many members, some say nothing in a round.
        assert!(room(100_000, 100, None).round().slots.end < most);
    }

    #[test]
    fn the_last_round_ends_with_the_last_delivery() {
        // A load of 2 members and 5 lines in all, with at most 2 lines in a round.
        let mut members = Members::of(room(2, 1, Some(5)));
        for (slots, last) in [(0..2, false), (2..4, false), (4..5, true)] {
            assert_eq!(members.room.round(), Round { slots, last });
            members.round(&[0, 1]).unwrap();
        }
        assert!(members.room.round().slots.is_empty());
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
        let mut members = Members::of(room(4, 1, None));
        members.round(&[3, 2, 1, 0]).unwrap();
        let mut chat = members.say(&[0, 1, 2, 3]);
        assert!(members.hear(1, &chat).unwrap() && members.hear(3, &chat).unwrap());
        assert!(members.hear(0, &chat).unwrap());
        chat.reverse();
        assert!(members.hear(2, &chat).unwrap());
        let passed = [0, 1, 2, 3].map(|member| members.pass(member).is_ok());
        assert_eq!(passed, [true, true, true, false]);
    }

    /// Members 2 and 4 are lost. The others hear some of their lines in this round and some in the
    /// next.
    fn after_a_loss(late: fn(usize, &mut Vec<(usize, String)>)) -> Result<(), Failure> {
        let mut members = Members::of(room(5, 3, Some(1000)));
        members.round(&[0, 1, 2, 3, 4])?;
        let mut chat = members.say(&[0, 1, 2, 3, 4]);
        // The last line of each lost member has not reached the room.
        chat.retain(|(member, line)| ![2, 4].contains(member) || !line.contains(" 00000005 "));
        // One member has passed before the loss is known, but the others have not.
        let (soon, later) = chat.split_at(chat.len() - 2);
        assert!(!members.hear(1, soon)?);
        assert!(members.room.lose(2, &GONE, members.ended));
        assert!(!members.hear(3, soon)?);
        assert!(members.room.lose(4, &GONE, members.ended));
        for member in [0, 1, 3] {
            let _ = members.hear(member, if member == 0 { soon } else { &[] })?;
            assert!(members.hearings[member].is_complete());
            members.pass(member)?;
        }
        let next = members.say(&[0, 1, 3]);
        for member in [0, 1, 3] {
            let mut heard = [later, &next].concat();
            late(member, &mut heard);
            assert!(members.hear(member, &heard)?);
        }
        for member in [0, 1, 3] {
            members.pass(member)?;
        }
        members.round(&[0, 1, 3])
    }

    #[test]
    fn a_room_goes_on_without_the_members_of_a_lost_server() {
        after_a_loss(|_, _| {}).unwrap();
        // If a member hears a line of a lost member, all must hear it, at the same place.
        assert!(
            after_a_loss(|member, heard| if member == 3 {
                drop(heard.remove(1));
            })
            .is_err()
        );
        assert!(
            after_a_loss(|member, heard| if member == 1 {
                heard.swap(1, 2);
            })
            .is_err()
        );
        assert!(after_a_loss(|_, heard| heard.insert(0, heard[0].clone())).is_err());
    }

    #[test]
    fn a_member_that_has_heard_all_may_be_lost_before_the_others_have() {
        let mut members = Members::of(room(4, 1, None));
        let round = members.room.round();
        let mut chat = members.say(&[0, 1, 2, 3]);
        assert!(members.hear(2, &chat).unwrap());
        members.pass(2).unwrap();
        // Its server ends with its line.
        chat.retain(|(member, _)| *member != 2);
        assert!(!members.hear(0, &chat).unwrap() && !members.hear(1, &chat).unwrap());
        assert!(members.room.lose(2, &GONE, members.ended));
        for member in [0, 1, 3] {
            assert_eq!(members.room.round(), round);
            assert!(members.hear(member, if member == 3 { &chat } else { &[] }).unwrap());
            members.pass(member).unwrap();
        }
        assert_ne!(members.room.round(), round);
        members.round(&[0, 1, 3]).unwrap();
    }

    #[test]
    fn some_losses_end_the_room() {
        let members = |is_across, count| {
            let numbers = Numbers::new((1..=count).collect()).unwrap();
            Room::new(numbers, is_across, RoomRound { lines: 1, deliveries: None })
        };
        assert!(members(true, 3).lose(0, &GONE, 0));
        assert!(!members(true, 2).lose(0, &GONE, 0));
        assert!(!members(false, 3).lose(0, &GONE, 0));
        assert!(!members(true, 3).lose(0, &Failure::TimedOut, 0));
        assert!(members(true, 3).lose(0, &Failure::StoreUnavailable, 0));
    }

    #[test]
    fn as_many_deliveries_are_made_as_were_asked_for() {
        let mut members = Members::of(room(5, 3, Some(200)));
        members.round(&[0, 1, 2, 3, 4]).unwrap();
        assert_eq!(members.ended, 60);
        let chat = members.say(&[0, 1, 2, 3, 4]);
        for member in [0, 4] {
            // Each loss costs a request.
            members.ended += 1;
            assert!(members.room.lose(member, &GONE, members.ended));
        }
        for member in [1, 2, 3] {
            assert!(members.hear(member, &chat).unwrap());
        }
        [1, 2, 3].iter().for_each(|member| members.pass(*member).unwrap());
        while !members.room.round().slots.is_empty() {
            members.round(&[1, 2, 3]).unwrap();
        }
        assert!((200..202).contains(&members.ended), "{}", members.ended);
    }
}
