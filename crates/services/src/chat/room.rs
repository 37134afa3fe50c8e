//! The state that the connections of a chat share: the members, and the lines.
//!
//! ```text
//!   reader of member 3 ── say ──▶ ┌──────────────────────┐ ── next ──▶ writer of member 1
//!   reader of member 17 ─ say ──▶ │ log, waiting writers │ ── next ──▶ writer of member 3
//!                                 └──────────────────────┘      …
//! ```
//!
//! The cost of saying a line does not depend on the number of members, except for the wakes of idle
//! members. A member copies all missed lines at once. So the busier a chat is, the less a delivery
//! costs.
//!
//! The room does not read from a member that is far behind: its reader waits in
//! [`Room::keep_pace`]. So members that talk as fast as they can are slowed to the rate of
//! delivery. Members that keep reading need not leave.
//!
//! A room across servers ([`super::across`]) gets its lines and its members' numbers from a
//! channel. Such a room can be cut off from the other servers. Then its members get the earlier
//! lines, and leave.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use duality_runtime::sync::Notify;

use super::log::{Log, Overtaken, Prefix};
use crate::store::Epoch;

/// The state that the members share.
pub(super) struct Room {
    state: Mutex<State>,
    /// The number of bytes that a member may be behind before its lines wait.
    pace: u64,
    /// The epoch of the channel that the room hears, if there is one.
    epoch: Option<Epoch>,
}

struct State {
    log: Log,
    /// The number of members that got their number here.
    joined: u64,
    /// The number of members.
    members: usize,
    /// No more lines come, because the room has been cut off or closed.
    over: bool,
    /// The members with a message that has not come back from the channel, by number.
    expected: BTreeMap<u64, Arc<Member>>,
    /// Members with writers that have nothing to do.
    waiting: Vec<Arc<Member>>,
    /// An empty list that replaces `waiting` when those members are woken.
    spare: Vec<Arc<Member>>,
}

/// The state that the reader and the writer of one member share.
pub(super) struct Member {
    number: u64,
    prefix: Prefix,
    /// Wakes the writer. `news` and `progress` keep a notification that comes before the wait.
    news: Notify,
    /// Wakes the reader when the writer has caught up or ended, a message has come back, or the
    /// room is over.
    progress: Notify,
    /// The position after the last message that came back, plus one. 0 while a message is expected.
    back: AtomicU64,
    /// The position up to which the writer has copied. Changes only under the room's lock.
    cursor: AtomicU64,
    /// The position up to which the writer has to copy, if the member is leaving. Used only under
    /// the lock.
    until: AtomicU64,
    /// Whether the writer has ended.
    out: AtomicBool,
}

/// The result of a writer's look at the log.
enum Copied {
    Lines,
    /// More bytes will come.
    Nothing,
    /// The member is leaving, and has copied all its lines.
    Everything,
    /// The room is over.
    Cut,
}

/// The next step of a writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Deliver the copied lines.
    Deliver,
    /// End: the member is leaving, and all its lines have been delivered.
    End,
    /// Part with the member: it is too slow.
    Overtaken,
    /// Part with the member: the room has been cut off from the other servers.
    Cut,
}

/// The room has been cut off, or closed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Over;

impl Room {
    /// An empty room; its members may fall `backlog` bytes behind.
    pub(super) fn new(backlog: usize) -> Self {
        let state = State {
            log: Log::new(backlog),
            joined: 0,
            members: 0,
            over: false,
            expected: BTreeMap::new(),
            waiting: Vec::new(),
            spare: Vec::new(),
        };
        Self { state: Mutex::new(state), pace: backlog as u64 / 4, epoch: None }
    }

    /// An empty room that hears a channel in this epoch.
    pub(super) fn of_epoch(epoch: Epoch, backlog: usize) -> Self {
        Self { epoch: Some(epoch), ..Self::new(backlog) }
    }

    /// The epoch of the channel that the room hears. `None` if it hears no channel.
    pub(super) fn epoch(&self) -> Option<&Epoch> {
        self.epoch.as_ref()
    }

    /// A new member, which gets all later lines.
    pub(super) fn join(&self) -> Arc<Member> {
        let mut state = self.lock();
        state.joined += 1;
        let number = state.joined;
        state.join(number)
    }

    /// Adds a member with a number that was given elsewhere, unless the room is over.
    pub(super) fn join_as(&self, number: u64) -> Result<Arc<Member>, Over> {
        let mut state = self.lock();
        if state.over { Err(Over) } else { Ok(state.join(number)) }
    }

    /// Says a line, wakes the members that wait for a line, and returns the position after it.
    pub(super) fn say(&self, member: &Member, text: &[u8]) -> u64 {
        let mut state = self.lock();
        state.log.add(member.prefix.as_bytes(), text);
        let end = state.log.end();
        self.wake(state);
        end
    }

    /// Takes a message of member `number` from the channel: whole lines, or none. If this room's
    /// member expects the message, notes that it has come back.
    pub(super) fn hear(&self, number: u64, lines: &[u8]) {
        let mut state = self.lock();
        state.log.add_lines(lines);
        if let Some(member) = state.expected.remove(&number) {
            member.back.store(state.log.end() + 1, Ordering::Relaxed);
            member.progress.notify_one();
        }
        if !lines.is_empty() {
            self.wake(state);
        }
    }

    /// Notes that the member is about to publish a message, and expects it back.
    pub(super) fn expect(&self, member: &Arc<Member>) -> Result<(), Over> {
        let mut state = self.lock();
        if state.over {
            return Err(Over);
        }
        member.back.store(0, Ordering::Relaxed);
        state.expected.insert(member.number, member.clone());
        Ok(())
    }

    /// Stops expecting a message that may not have been published.
    pub(super) fn give_up(&self, member: &Member) {
        self.lock().expected.remove(&member.number);
    }

    /// Waits until the member's message has come back, and returns the position after it.
    pub(super) async fn came_back(&self, member: &Member) -> Result<u64, Over> {
        loop {
            match member.back.load(Ordering::Relaxed) {
                0 if self.is_over() => return Err(Over),
                0 => member.progress.notified().await,
                back => return Ok(back - 1),
            }
        }
    }

    /// Lets the member hear the lines after `position`. The member has no writer yet.
    pub(super) fn begin_at(&self, member: &Member, position: u64) {
        let _state = self.lock();
        member.cursor.store(position, Ordering::Relaxed);
    }

    /// Ends the room: its members get the lines so far, and no more will come.
    pub(super) fn cut(&self) {
        let mut state = self.lock();
        state.over = true;
        for (_, member) in mem::take(&mut state.expected) {
            member.progress.notify_one();
        }
        self.wake(state);
    }

    /// Ends the room if it has no members. Returns whether the room is over.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut state = self.lock();
        state.over |= state.members == 0;
        state.over
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Wakes the members that wait for news.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        if state.waiting.is_empty() {
            return;
        }
        let spare = mem::take(&mut state.spare);
        let mut woken = mem::replace(&mut state.waiting, spare);
        drop(state);
        // The lock must be free now, because the first member woken takes it at once.
        for member in woken.drain(..) {
            member.news.notify_one();
        }
        self.lock().spare = woken;
    }

    /// Waits until the member is at most `pace` bytes behind `end`. False if its writer has ended.
    pub(super) async fn keep_pace(&self, member: &Member, end: u64) -> bool {
        while end.saturating_sub(member.cursor.load(Ordering::Relaxed)) > self.pace {
            if member.is_out() {
                return false;
            }
            member.progress.notified().await;
        }
        !member.is_out()
    }

    /// Waits until there is something for the member's writer to do. Lines to deliver replace the
    /// content of `lines`.
    pub(super) async fn next(&self, member: &Arc<Member>, lines: &mut Vec<u8>) -> Next {
        loop {
            lines.clear();
            match self.copy(member, lines) {
                Err(Overtaken) => return Next::Overtaken,
                Ok(Copied::Lines) => {
                    member.progress.notify_one();
                    member.prefix.take_out(lines);
                    if !lines.is_empty() {
                        return Next::Deliver;
                    }
                }
                Ok(Copied::Nothing) => member.news.notified().await,
                Ok(Copied::Everything) => return Next::End,
                Ok(Copied::Cut) => return Next::Cut,
            }
        }
    }

    /// Copies lines that the member has not got yet. If there are none, the next line wakes the
    /// writer.
    fn copy(&self, member: &Arc<Member>, lines: &mut Vec<u8>) -> Result<Copied, Overtaken> {
        let mut state = self.lock();
        let cursor = member.cursor.load(Ordering::Relaxed);
        if cursor >= member.until.load(Ordering::Relaxed) {
            return Ok(Copied::Everything);
        }
        let copied = state.log.copy(cursor, lines)?;
        if copied == cursor && state.over {
            return Ok(Copied::Cut);
        }
        if copied == cursor {
            state.waiting.push(member.clone());
            return Ok(Copied::Nothing);
        }
        member.cursor.store(copied, Ordering::Relaxed);
        Ok(Copied::Lines)
    }

    /// Makes the member's writer end when it has delivered all lines so far.
    pub(super) fn leave(&self, member: &Arc<Member>) {
        let mut state = self.lock();
        state.members -= 1;
        member.until.store(state.log.end(), Ordering::Relaxed);
        if let Some(place) = state.waiting.iter().position(|waiting| Arc::ptr_eq(waiting, member)) {
            state.waiting.swap_remove(place);
        }
        drop(state);
        member.news.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn join(&mut self, number: u64) -> Arc<Member> {
        self.members += 1;
        Arc::new(Member {
            number,
            prefix: Prefix::new(number),
            news: Notify::new(),
            progress: Notify::new(),
            back: AtomicU64::new(0),
            cursor: AtomicU64::new(self.log.end()),
            until: AtomicU64::new(u64::MAX),
            out: AtomicBool::new(false),
        })
    }
}

impl Member {
    /// The member's number. The first is 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The beginning of its lines.
    pub(super) fn prefix(&self) -> &[u8] {
        self.prefix.as_bytes()
    }

    /// Notes that its writer has ended.
    pub(super) fn writer_ended(&self) {
        self.out.store(true, Ordering::Relaxed);
        self.progress.notify_one();
    }

    fn is_out(&self) -> bool {
        self.out.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use duality_runtime::{
        block_on,
        time::{Duration, timeout},
    };

    use super::*;

    const BACKLOG: usize = 1000;

    fn next(room: &Room, member: &Arc<Member>) -> (Next, String) {
        let mut lines = Vec::new();
        let next = block_on(room.next(member, &mut lines));
        (next, String::from_utf8(lines).unwrap())
    }

    #[test]
    fn a_member_hears_the_others_from_its_joining_to_its_leaving() {
        let room = Room::new(BACKLOG);
        let one = room.join();
        room.say(&one, b"anybody?");
        let two = room.join();
        room.say(&two, b"me");
        room.say(&one, b"good");
        assert_eq!((one.number(), two.number()), (1, 2));
        assert_eq!(next(&room, &two), (Next::Deliver, "1> good\n".into()));
        assert_eq!(next(&room, &one), (Next::Deliver, "2> me\n".into()));
        room.say(&one, b"bye");
        room.leave(&one);
        room.leave(&two);
        room.say(&one, b"too late");
        assert_eq!(next(&room, &one), (Next::End, String::new()));
        assert_eq!(next(&room, &two).0, Next::Deliver);
        assert_eq!(next(&room, &two), (Next::End, String::new()));
    }

    /// Publishes lines of `member`, and lets them come back from the channel.
    fn comes_back(room: &Room, member: &Arc<Member>, text: &str) -> u64 {
        room.expect(member).unwrap();
        room.hear(member.number(), text.as_bytes());
        block_on(room.came_back(member)).unwrap()
    }

    #[test]
    fn a_member_across_servers_hears_from_its_first_message_to_its_last() {
        let room = Room::new(BACKLOG);
        let (one, two) = (room.join_as(11).unwrap(), room.join_as(12).unwrap());
        room.begin_at(&one, comes_back(&room, &one, ""));
        room.hear(5, b"5> early\n");
        let position = comes_back(&room, &two, "");
        // Lines of another server come before the member's task has its turn.
        room.hear(5, b"5> a\n5> b\n");
        room.begin_at(&two, position);
        assert_eq!(next(&room, &one), (Next::Deliver, "5> early\n5> a\n5> b\n".into()));
        assert_eq!(next(&room, &two), (Next::Deliver, "5> a\n5> b\n".into()));
        let end = comes_back(&room, &two, "12> c\n");
        room.hear(5, b"5> d\n");
        assert_eq!(next(&room, &two), (Next::Deliver, "5> d\n".into()));
        assert_eq!(next(&room, &one), (Next::Deliver, "12> c\n5> d\n".into()));
        assert!(block_on(room.keep_pace(&two, end)));
        assert!(!room.close_if_empty());
        for member in [&one, &two] {
            comes_back(&room, member, "");
            room.leave(member);
            assert_eq!(next(&room, member).0, Next::End);
        }
        assert!(room.close_if_empty() && room.join_as(13).is_err());
    }

    #[test]
    fn a_room_that_is_cut_off_gives_what_it_has_and_ends() {
        let room = Room::new(BACKLOG);
        let (one, two) = (room.join_as(11).unwrap(), room.join_as(12).unwrap());
        room.hear(5, b"5> a\n");
        room.expect(&one).unwrap();
        room.expect(&two).unwrap();
        // The lines were published, so they come nevertheless.
        room.give_up(&two);
        room.hear(12, b"12> b\n");
        room.cut();
        assert_eq!(block_on(room.came_back(&one)), Err(Over));
        assert_eq!(room.expect(&one), Err(Over));
        assert_eq!(next(&room, &one), (Next::Deliver, "5> a\n12> b\n".into()));
        assert_eq!(next(&room, &one), (Next::Cut, String::new()));
        assert!(room.join_as(13).is_err());
    }

    #[test]
    fn a_member_that_falls_behind_is_told() {
        let room = Room::new(BACKLOG);
        let (talker, quick) = (room.join(), room.join());
        let (slow, slower) = (room.join(), room.join());
        for _ in 0..BACKLOG / 5 {
            room.say(&talker, b"!");
            assert_eq!(next(&room, &quick), (Next::Deliver, "1> !\n".into()));
        }
        assert_eq!(next(&room, &slow).1.len(), BACKLOG);
        room.say(&talker, b"");
        assert_eq!(next(&room, &slower), (Next::Overtaken, String::new()));
        assert_eq!(next(&room, &slow), (Next::Deliver, "1> \n".into()));
    }

    #[test]
    fn a_member_that_is_behind_is_not_listened_to() {
        let paces = |room: &Room, member: &Member, end| {
            block_on(timeout(Duration::from_millis(1), room.keep_pace(member, end))).ok()
        };
        let room = Room::new(BACKLOG);
        let (one, two) = (room.join(), room.join());
        let near = room.say(&two, &[b'x'; BACKLOG / 5]);
        assert_eq!(paces(&room, &one, near), Some(true));
        let far = room.say(&one, &[b'x'; BACKLOG / 5]);
        assert_eq!(paces(&room, &one, far), None);
        assert_eq!(next(&room, &one).0, Next::Deliver);
        assert_eq!(paces(&room, &one, far), Some(true));
        assert_eq!(paces(&room, &two, far), None);
        two.writer_ended();
        assert_eq!(paces(&room, &two, far), Some(false));
    }

    #[test]
    fn those_who_wait_are_on_the_list_until_they_hear_or_leave() {
        let room = Room::new(BACKLOG);
        let (talker, member, leaver) = (room.join(), room.join(), room.join());
        for waiting in [&member, &leaver] {
            let mut lines = Vec::new();
            let waits = timeout(Duration::from_millis(1), room.next(waiting, &mut lines));
            assert!(block_on(waits).is_err());
        }
        assert_eq!(room.lock().waiting.len(), 2);
        room.leave(&leaver);
        assert_eq!(room.lock().waiting.len(), 1);
        assert_eq!(Arc::strong_count(&leaver), 1);
        assert_eq!(next(&room, &leaver).0, Next::End);
        room.say(&talker, b"news");
        assert!(room.lock().waiting.is_empty());
        assert_eq!(Arc::strong_count(&member), 1);
        assert_eq!(next(&room, &member), (Next::Deliver, "1> news\n".into()));
    }

    #[test]
    fn a_line_costs_the_heap_nothing() {
        let room = Room::new(BACKLOG);
        let (talker, member) = (room.join(), room.join());
        let mut lines = Vec::with_capacity(BACKLOG);
        let counted = allocation_counter::measure(|| {
            block_on(async {
                for _ in 0..1000 {
                    let end = room.say(&talker, b"a line");
                    assert_eq!(room.next(&member, &mut lines).await, Next::Deliver);
                    assert!(room.keep_pace(&member, end).await);
                }
            });
        });
        // The kernel thread's waker may allocate once.
        assert!(counted.count_total <= 1, "{counted:?}");
    }
}
