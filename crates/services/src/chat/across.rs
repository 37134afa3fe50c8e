//! One room for the members of several servers, through a channel of Redis.
//!
//! ```text
//!   server 1: reader of member 3 ── publish ──▶ ┌───────┐ ──▶ server 1: room ──▶ writers
//!   server 2: reader of member 8 ── publish ──▶ │ Redis │ ──▶ server 2: room ──▶ writers
//!                                               └───────┘ ──▶ server 3: room ──▶ writers
//! ```
//!
//! **One order.** A line does not go straight into the room of its server. The line goes to Redis,
//! and comes back to every server, this one included. So the order of PUBLISH in Redis is the order
//! of the room. A member has one message under way at a time, so its own lines keep their order. A
//! message contains the lines that the member sent together.
//!
//! **Before and after.** A message may have no lines. When it comes back, all earlier messages have
//! come too. A member joins by an empty message, and hears the messages after it. A member that
//! leaves hears the messages before its last one.
//!
//! **No gap in silence.** A subscription has no gap until it ends. When it ends, the room is cut
//! off. Its members get the earlier lines and the reason, and their connections end. Members of
//! other servers stay. The next client opens a new room. A member's connection also ends if Redis
//! did not confirm its message, which may or may not have been published.
//!
//! Each event loop, or process without loops, has its own room and subscription. So a loop's
//! members need nothing of another loop. A room without members closes its subscription.
//!
//! **Epochs.** A Redis that starts again may give numbers again. Then all subscriptions to its
//! earlier process are dead, though a server may notice that only seconds later. So a room belongs
//! to the process of Redis that it hears, and its members publish in that process's channel alone.
//! If a newcomer's number is of another process, the room is over.
//!
//! A message is the member's number, LF, and whole lines, each with the number before it: `17⏎17>
//! hello⏎17> good morning⏎`. All servers skip bytes that are not a message.

use std::{io, sync::Arc};

use duality_runtime::{sync::Mutex, task};
use memchr::memchr;

use super::{
    LONGEST,
    room::{Member, Over, Room},
};
use crate::{
    per_loop::PerLoop,
    store::{Channel, Subscription, Unavailable},
};

/// A message with so many bytes of lines is full.
pub(super) const MESSAGE: usize = 4 << 10;

/// The most digits of a number.
const DIGITS: usize = 20;

/// The longest line in its published form.
const LONGEST_LINE: usize = DIGITS + "> ".len() + LONGEST + 1;

/// The rooms of this server's loops.
pub(super) struct Across {
    channel: Channel,
    backlog: usize,
    rooms: PerLoop<Slot>,
}

/// The last room of a loop, if there was one. The room may be over.
type Slot = Mutex<Option<Arc<Room>>>;

/// How often a newcomer finds that Redis has started again, before it is sent away.
const ATTEMPTS: usize = 10;

/// The reason why a client does not become a member.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A descriptor, thread or stack for the member is lacking.
    Full,
    /// Redis cannot be used.
    Unavailable,
}

/// The message may not have been published, or the room is over.
#[derive(Debug)]
pub(super) struct Unsaid;

impl Across {
    /// Rooms with members that may fall `backlog` bytes behind.
    pub(super) fn new(channel: Channel, backlog: usize) -> Self {
        Self { channel, backlog, rooms: PerLoop::default() }
    }

    /// A new member, and its room. The member hears all lines that are published from now on.
    pub(super) async fn join(&self) -> Result<(Arc<Room>, Arc<Member>), Refusal> {
        // Boxed, as in `say`, because a connection's task has room for its largest wait.
        Box::pin(async {
            for _ in 0..ATTEMPTS {
                let room = self.room().await?;
                let (epoch, number) = self.channel.number().await?;
                if room.epoch() != Some(&epoch) {
                    // Redis has started again, so nothing comes to this room any more.
                    room.cut();
                    continue;
                }
                // The room may have been closed at this moment.
                let Ok(member) = room.join_as(number) else { continue };
                return match self.say(&room, &member, &[]).await {
                    Ok(position) => {
                        room.begin_at(&member, position);
                        Ok((room, member))
                    }
                    Err(Unsaid) => {
                        room.leave(&member);
                        Err(Refusal::Unavailable)
                    }
                };
            }
            Err(Refusal::Unavailable)
        })
        .await
    }

    /// Publishes the member's lines, and waits until they have come back. Returns the position
    /// after them.
    pub(super) async fn say(
        &self,
        room: &Room,
        member: &Arc<Member>,
        lines: &[u8],
    ) -> Result<u64, Unsaid> {
        Box::pin(async {
            let message = encode(member.number(), lines);
            let epoch = room.epoch().ok_or(Unsaid)?;
            room.expect(member)?;
            if let Err(unavailable) = self.channel.publish(epoch, None, &message).await {
                room.give_up(member);
                return Err(unavailable.into());
            }
            Ok(room.came_back(member).await?)
        })
        .await
    }

    /// The room of this loop.
    async fn room(&self) -> Result<Arc<Room>, Refusal> {
        let slot = self.rooms.here(|| Mutex::new(None));
        // Clients that come together wait for one subscription.
        let mut slot = slot.lock().await;
        if let Some(room) = slot.as_ref().filter(|room| !room.is_over()) {
            return Ok(room.clone());
        }
        let (epoch, subscription) = self.channel.subscribe(None).await?;
        let room = Arc::new(Room::of_epoch(epoch, self.backlog));
        task::spawn(hear(HeardRoom(room.clone()), subscription))?;
        *slot = Some(room.clone());
        Ok(room)
    }
}

/// A room that hears its channel. Dropping the room cuts it off.
struct HeardRoom(Arc<Room>);

impl Drop for HeardRoom {
    fn drop(&mut self) {
        self.0.cut();
    }
}

/// Passes published messages to the room, until the subscription ends or the room has no members.
async fn hear(heard_room: HeardRoom, mut subscription: Subscription) {
    let HeardRoom(room) = &heard_room;
    while let Ok(heard) = subscription.next().await {
        match heard.as_deref().map(decode) {
            Some(Some((number, lines))) => room.hear(number, lines),
            Some(None) => {}
            None if room.close_if_empty() => return,
            None => {}
        }
        if !subscription.has_more() {
            // Redis may send more than a loop can pass on. So the members' writers get turns here.
            task::yield_now().await;
        }
    }
}

fn encode(number: u64, lines: &[u8]) -> Vec<u8> {
    let mut message = format!("{number}\n").into_bytes();
    message.extend_from_slice(lines);
    message
}

/// The number and the lines in a message. `None` if the bytes are not a message.
pub(crate) fn decode(message: &[u8]) -> Option<(u64, &[u8])> {
    let feed = memchr(b'\n', &message[..message.len().min(DIGITS + 1)])?;
    let (digits, lines) = (&message[..feed], &message[feed + 1..]);
    let is_number = digits.iter().all(u8::is_ascii_digit) && !digits.starts_with(b"0");
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    let mut rest = lines;
    while !rest.is_empty() {
        let text = rest.strip_prefix(digits)?.strip_prefix(b"> ")?;
        let end = memchr(b'\n', text).filter(|length| *length <= LONGEST)?;
        rest = &text[end + 1..];
    }
    (lines.len() < MESSAGE + LONGEST_LINE).then_some((number, lines))
}

impl From<Unavailable> for Refusal {
    fn from(_: Unavailable) -> Self {
        Self::Unavailable
    }
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Self::Full
    }
}

impl From<Unavailable> for Unsaid {
    fn from(_: Unavailable) -> Self {
        Self
    }
}

impl From<Over> for Unsaid {
    fn from(Over: Over) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_message_is_passed_over() {
        let long = format!("7\n7> {}\n", "x".repeat(LONGEST + 1));
        let many = format!("7\n{}", "7> \n".repeat(2000));
        for bytes in [
            "",
            "7",
            "\n",
            "7> a\n",
            "x\n",
            "7\na\n",
            "7\n7>a\n",
            "7\n7> a",
            "7\n8> a\n",
            "07\n07> a\n",
            "0\n",
            "+7\n",
            "-7\n",
            "99999999999999999999\n",
            "7\n7> a\n\n",
            &long,
            &many,
        ] {
            assert_eq!(decode(bytes.as_bytes()), None, "{bytes:?}");
        }
        for (bytes, number, lines) in [
            ("7\n", 7, ""),
            ("7\n7> \n7> 8> a\n", 7, "7> \n7> 8> a\n"),
            ("18446744073709551615\n", u64::MAX, ""),
        ] {
            assert_eq!(decode(bytes.as_bytes()), Some((number, lines.as_bytes())));
        }
        let longest = format!("7\n7> {}\n", "x".repeat(LONGEST));
        assert!(decode(longest.as_bytes()).is_some());
    }

    proptest! {
        /// Gathers lines as `listen` does.
        #[test]
        fn messages_come_back(number in 1..=u64::MAX, lengths in prop::collection::vec(0..=LONGEST, 0..9)) {
            let mut lines = Vec::new();
            for length in lengths {
                if lines.len() < MESSAGE {
                    lines.extend(format!("{number}> {}\n", "x".repeat(length)).bytes());
                }
            }
            let message = encode(number, &lines);
            prop_assert_eq!(decode(&message), Some((number, &lines[..])));
        }

        /// Any bytes are either skipped, or are the encoding of their decoded message.
        #[test]
        fn bytes_are_passed_over_or_taken_at_their_word(pieces in prop::collection::vec(
            prop::sample::select(vec!["1", "2", "1> ", "> ", "\n", "x", "0", "\u{e9}"]), 0..12,
        )) {
            let bytes = pieces.concat();
            if let Some((number, lines)) = decode(bytes.as_bytes()) {
                prop_assert_eq!(encode(number, lines), bytes.as_bytes());
            }
        }
    }
}
