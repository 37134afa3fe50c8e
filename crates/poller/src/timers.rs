//! Deadlines, one for each task, set and cleared in O(1): a hierarchical timing wheel.
//!
//! ```text
//!    level 0   64 slots of     1 ms   ▢▢▢▣▢▢▣▢ …    the block of 64 ms that `current` is in
//!    level 1   64 slots of    64 ms   ▢▢▢▢▣▢▢▢ …    the rest of its block of 4 s
//!    level 2   64 slots of  4096 ms   ▢▢▣▢▢▢▢▢ …    the rest of its block of 4 min 22 s
//!      ⋮                                ┆
//!    level 6   64 slots of 2³⁶ ms       ┆           the rest of 2⁴² ms, 139 years
//!                                       ▼
//!                                       id 7 ⇄ id 3 ⇄ id 12      a list through `entries`
//! ```
//!
//! A deadline's level is the highest digit, in base 64, in which it differs from the current tick.
//! Its slot is that digit. So everything at a level comes before everything above it. The next slot
//! to come up is the first occupied slot of the lowest occupied level. A bitmap for each level
//! finds that slot. Empty slots cost nothing, however long the loop slept. When a slot of an upper
//! level comes up, its entries move down. An entry moves down at most once per level.
//!
//! A server moves its idle time-out forward at each request and hardly ever sees it expire, so the
//! wheel is lazy. Moving a deadline further away only stores it, and clearing stores "never". The
//! entry stays where it is linked, and finds its new place when its slot comes up. The price is
//! that [`Timers::next_expiry`] can be early.
//!
//! Source: Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 7.

use std::fmt;
use std::time::{Duration, Instant};

/// A set of deadlines, at most one for each id.
///
/// The ids are small dense integers, such as the slots of a slab. The memory is 32 bytes for each
/// id up to the highest one ever set. Deadlines are rounded up to a tick of one millisecond. So a
/// timer never fires early, and fires less than one tick late when `expire` is called in time.
///
/// ```
/// use duality_poller::Timers;
/// use std::time::{Duration, Instant};
///
/// let now = Instant::now();
/// let mut timers = Timers::new(now);
/// timers.set(7, now + Duration::from_secs(5));
///
/// let mut fired = Vec::new();
/// timers.expire(now + Duration::from_secs(4), &mut fired);
/// assert_eq!(fired, []);
/// timers.expire(now + Duration::from_secs(5), &mut fired);
/// assert_eq!(fired, [7]);
/// ```
pub struct Timers {
    /// The instant of tick 0.
    start: Instant,
    /// Slots that come up before this tick are empty.
    current: u64,
    /// Bit l: level l has an occupied slot.
    occupied_levels: u8,
    /// Bit s of word l: slot s of level l is occupied.
    occupied_slots: [u64; LEVELS],
    /// The first id in each slot.
    heads: [u32; LEVELS * SLOTS],
    /// The entry of each id.
    entries: Vec<Entry>,
}

impl fmt::Debug for Timers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Timers").finish_non_exhaustive()
    }
}

const LEVELS: usize = 7;
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 6;

/// The last tick that the wheel can hold; a later deadline counts as this one.
const HORIZON: u64 = (1 << (LEVELS as u32 * SLOT_BITS)) - 1;
/// The deadline of a cleared id, and the turn of an id that is in no slot.
const NEVER: u64 = u64::MAX;
/// Ends a list.
const NO_ID: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    /// The tick from which the timer may fire.
    deadline: u64,
    /// The tick at which the entry's slot comes up, at or before the deadline.
    turn: u64,
    /// The neighbours in the slot's list.
    previous: u32,
    next: u32,
    /// Which slot, as an index into `heads`.
    slot: u16,
}

const UNLINKED: Entry =
    Entry { deadline: NEVER, turn: NEVER, previous: NO_ID, next: NO_ID, slot: 0 };

impl Timers {
    /// An empty set. All instants up to `now` count as the past.
    pub fn new(now: Instant) -> Self {
        Self {
            start: now,
            current: 0,
            occupied_levels: 0,
            occupied_slots: [0; LEVELS],
            heads: [NO_ID; LEVELS * SLOTS],
            entries: Vec::new(),
        }
    }

    /// Gives `id` a deadline, in place of an earlier one.
    ///
    /// A deadline in the past fires at the next [`expire`](Timers::expire). A deadline more than
    /// 139 years away fires after that time.
    #[inline]
    pub fn set(&mut self, id: u32, deadline: Instant) {
        let deadline = self.tick_after(deadline);
        match self.entries.get_mut(id as usize) {
            // The entry's slot comes up early enough to look at the deadline again.
            Some(entry) if entry.turn <= deadline => entry.deadline = deadline,
            _ => self.relink(id, deadline),
        }
    }

    /// The deadline of `id`, if there is one, rounded up to a tick.
    pub fn deadline(&self, id: u32) -> Option<Instant> {
        let entry = self.entries.get(id as usize).filter(|entry| entry.deadline != NEVER)?;
        self.start.checked_add(Duration::from_millis(entry.deadline))
    }

    /// Clears the deadline of `id`, if there is one.
    #[inline]
    pub fn clear(&mut self, id: u32) {
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.deadline = NEVER;
        }
    }

    /// When to call [`expire`](Timers::expire) next; `None` when there is nothing to wait for.
    ///
    /// The instant is never later than the first deadline, rounded up to its tick. It may be
    /// earlier: then `expire` only moves entries, or finds a cleared or moved deadline.
    #[inline]
    pub fn next_expiry(&self) -> Option<Instant> {
        self.first().map(|(turn, _)| self.start + Duration::from_millis(turn))
    }

    /// Replaces the contents of `fired` by the ids with expired deadlines, and clears these
    /// deadlines.
    ///
    /// The ids come roughly in the order of their deadlines. The cost is proportional to the
    /// entries of the slots that came up, however far `now` has moved.
    pub fn expire(&mut self, now: Instant, fired: &mut Vec<u32>) {
        fired.clear();
        let now = self.tick_before(now);
        while let Some((turn, slot)) = self.first()
            && turn <= now
        {
            // Entries that stay are linked relative to this turn, hence to slots after it.
            self.current = turn;
            let mut id = self.take(slot);
            while id != NO_ID {
                let Entry { deadline, next, .. } = self.entries[id as usize];
                self.entries[id as usize] = UNLINKED;
                if deadline <= now {
                    fired.push(id);
                } else if deadline != NEVER {
                    self.link(id, deadline);
                }
                id = next;
            }
        }
        self.current = self.current.max(now);
    }

    /// The first occupied slot to come up, with the tick of its turn.
    #[inline]
    fn first(&self) -> Option<(u64, usize)> {
        if self.occupied_levels == 0 {
            return None;
        }
        let level = self.occupied_levels.trailing_zeros();
        let digit = self.occupied_slots[level as usize].trailing_zeros();
        let shift = level * SLOT_BITS;
        let block = self.current >> shift >> SLOT_BITS << SLOT_BITS;
        let turn = (block | u64::from(digit)) << shift;
        Some((turn, slot_index(level, digit)))
    }

    /// Links an entry where it belongs, if it has no slot or its slot would come up too late.
    fn relink(&mut self, id: u32, deadline: u64) {
        if id as usize >= self.entries.len() {
            self.entries.resize(id as usize + 1, UNLINKED);
        }
        if self.entries[id as usize].turn != NEVER {
            self.unlink(id);
        }
        self.link(id, deadline);
    }

    /// Puts an unlinked entry at the head of the list of its slot.
    fn link(&mut self, id: u32, deadline: u64) {
        // A deadline in the past fires at the next `expire`, which looks at the current tick's slot
        // again.
        let tick = deadline.max(self.current);
        let highest_difference = ((tick ^ self.current) | 1).ilog2();
        let level = highest_difference / SLOT_BITS;
        let shift = level * SLOT_BITS;
        let digit = (tick >> shift) as u32 % SLOTS as u32;
        let slot = slot_index(level, digit);

        let next = self.heads[slot];
        if next != NO_ID {
            self.entries[next as usize].previous = id;
        }
        self.heads[slot] = id;
        let turn = tick >> shift << shift;
        self.entries[id as usize] =
            Entry { deadline, turn, previous: NO_ID, next, slot: slot as u16 };
        self.occupied_slots[level as usize] |= 1 << digit;
        self.occupied_levels |= 1 << level;
    }

    /// Takes a linked entry out of the list of its slot.
    fn unlink(&mut self, id: u32) {
        let Entry { previous, next, slot, .. } = self.entries[id as usize];
        if next != NO_ID {
            self.entries[next as usize].previous = previous;
        }
        if previous != NO_ID {
            self.entries[previous as usize].next = next;
        } else if next != NO_ID {
            self.heads[slot as usize] = next;
        } else {
            self.take(slot as usize);
        }
    }

    /// Empties a slot and returns the head of the list that was there.
    fn take(&mut self, slot: usize) -> u32 {
        let (level, digit) = (slot / SLOTS, slot % SLOTS);
        self.occupied_slots[level] &= !(1 << digit);
        if self.occupied_slots[level] == 0 {
            self.occupied_levels &= !(1 << level);
        }
        std::mem::replace(&mut self.heads[slot], NO_ID)
    }

    /// The first tick at or after `instant`: a deadline must not come early.
    fn tick_after(&self, instant: Instant) -> u64 {
        ticks(instant.saturating_duration_since(self.start), 999_999)
    }

    /// The last tick at or before `instant`: time must have passed in full.
    fn tick_before(&self, instant: Instant) -> u64 {
        ticks(instant.saturating_duration_since(self.start), 0)
    }
}

/// The whole milliseconds in `duration` plus `extra` nanoseconds, up to the horizon.
#[inline]
fn ticks(duration: Duration, extra: u32) -> u64 {
    let milliseconds = u64::from((duration.subsec_nanos() + extra) / 1_000_000);
    duration.as_secs().saturating_mul(1000).saturating_add(milliseconds).min(HORIZON)
}

fn slot_index(level: u32, digit: u32) -> usize {
    level as usize * SLOTS + digit as usize
}
