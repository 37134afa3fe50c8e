//! Tests the timing wheel against a sorted map: never early, never lost, at most a tick late.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use duality_poller::Timers;
use proptest::prelude::*;

const TICK: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug)]
enum Step {
    /// Gives an id a deadline so far from now.
    Set(u32, Duration),
    /// Gives an id a deadline so far in the past.
    SetPast(u32, Duration),
    Clear(u32),
    /// Lets so much time pass, then expires.
    Advance(Duration),
    /// This many times: sleeps for as long as the wheel allows, then expires.
    Follow(usize),
}

/// Any duration up to two months, with a bias for short ones and for the edges of slots. All the
/// steps of a run together stay well within the wheel's horizon of 139 years.
fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        3 => (0..5_000_000_u64).prop_map(Duration::from_nanos),
        3 => (0..100_000_000_u64).prop_map(Duration::from_micros),
        2 => (0..32_u32, 0..3_u64)
            .prop_map(|(bit, more)| Duration::from_millis((1 << bit) + more - 1)),
        1 => (0..5_000_000_u64).prop_map(Duration::from_secs),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..12_u32;
    prop_oneof![
        6 => (id.clone(), duration()).prop_map(|(id, offset)| Step::Set(id, offset)),
        1 => (id.clone(), duration()).prop_map(|(id, offset)| Step::SetPast(id, offset)),
        2 => id.prop_map(Step::Clear),
        3 => duration().prop_map(Step::Advance),
        2 => (1..20_usize).prop_map(Step::Follow),
    ]
}

/// The wheel, the map of expected deadlines, and their common clock.
struct Pair {
    start: Instant,
    now: Instant,
    timers: Timers,
    model: BTreeMap<u32, Instant>,
}

impl Pair {
    fn new() -> Self {
        let start = Instant::now();
        Self { start, now: start, timers: Timers::new(start), model: BTreeMap::new() }
    }

    fn set(&mut self, id: u32, deadline: Instant) {
        self.timers.set(id, deadline);
        self.model.insert(id, deadline);
        self.check_next_expiry();
    }

    fn clear(&mut self, id: u32) {
        self.timers.clear(id);
        self.model.remove(&id);
        self.check_next_expiry();
    }

    fn expire(&mut self, now: Instant) {
        self.now = now;
        let mut fired = vec![u32::MAX];
        self.timers.expire(now, &mut fired);
        for id in fired {
            let deadline = self.model.remove(&id).expect("a timer fired that was not set");
            assert!(deadline <= now, "{id} fired {:?} early", deadline - now);
        }
        for (id, &deadline) in &self.model {
            assert!(self.first_tick_after(deadline) > now, "{id} did not fire in time");
        }
        self.check_next_expiry();
    }

    /// A sleep until the next expiry must not miss the first deadline's tick.
    fn check_next_expiry(&self) {
        if let Some(&first) = self.model.values().min() {
            let next = self.timers.next_expiry().expect("there is a deadline to wait for");
            let limit = self.first_tick_after(first).max(self.now);
            assert!(next <= limit, "next_expiry is {:?} late", next - limit);
        }
    }

    fn first_tick_after(&self, instant: Instant) -> Instant {
        let past = instant.saturating_duration_since(self.start).as_nanos();
        let ticks = past.div_ceil(TICK.as_nanos()) as u64;
        self.start + Duration::from_millis(ticks)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_sorted_map(steps in prop::collection::vec(step(), 0..200)) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::Set(id, offset) => pair.set(id, pair.now + offset),
                Step::SetPast(id, offset) => {
                    // An Instant cannot precede the machine's start by much.
                    pair.set(id, pair.now.checked_sub(offset).unwrap_or(pair.now));
                }
                Step::Clear(id) => pair.clear(id),
                Step::Advance(offset) => pair.expire(pair.now + offset),
                Step::Follow(times) => {
                    for _ in 0..times {
                        let Some(next) = pair.timers.next_expiry() else { break };
                        pair.expire(next.max(pair.now));
                    }
                }
            }
        }
        // All remaining timers fire after a bounded number of sleeps.
        let sleeps = 12 * 7 * 2;
        for _ in 0..sleeps {
            let Some(next) = pair.timers.next_expiry() else { break };
            pair.expire(next.max(pair.now));
        }
        prop_assert_eq!(pair.timers.next_expiry(), None);
        prop_assert!(pair.model.is_empty());
    }
}

#[test]
fn empty_has_nothing_to_wait_for() {
    let now = Instant::now();
    let mut timers = Timers::new(now);
    assert_eq!(timers.next_expiry(), None);
    timers.clear(5);
    timers.expire(now + 400 * DAY, &mut Vec::new());
    assert_eq!(timers.next_expiry(), None);
}

#[test]
fn a_deadline_is_rounded_up_to_its_tick() {
    let now = Instant::now();
    let mut timers = Timers::new(now);
    let mut fired = Vec::new();
    timers.set(0, now + Duration::from_nanos(1));
    assert_eq!(timers.next_expiry(), Some(now + TICK));
    timers.expire(now + TICK - Duration::from_nanos(1), &mut fired);
    assert_eq!(fired, []);
    timers.expire(now + TICK, &mut fired);
    assert_eq!(fired, [0]);
}

#[test]
fn a_past_deadline_fires_at_the_next_expire() {
    let now = Instant::now();
    let mut timers = Timers::new(now);
    let mut fired = Vec::new();
    timers.expire(now + DAY, &mut fired);
    timers.set(3, now);
    assert_eq!(timers.next_expiry(), Some(now + DAY));
    timers.expire(now + DAY, &mut fired);
    assert_eq!(fired, [3]);
}

/// The idle time-out of a busy connection: each request moves it, and the wheel looks at it once a
/// minute.
#[test]
fn a_deadline_that_keeps_moving_away_is_left_in_peace() {
    let now = Instant::now();
    let mut timers = Timers::new(now);
    let idle = Duration::from_secs(60);
    let mut fired = Vec::new();
    let mut wakes = 0;
    for millisecond in 0..600_000 {
        let time = now + Duration::from_millis(millisecond);
        timers.set(0, time + idle);
        if timers.next_expiry().is_some_and(|next| next <= time) {
            timers.expire(time, &mut fired);
            wakes += 1;
            assert_eq!(fired, []);
        }
    }
    assert!(wakes <= 11, "{wakes} wakes in ten minutes");
    timers.clear(0);
    timers.expire(now + DAY, &mut fired);
    assert_eq!(fired, []);
    assert_eq!(timers.next_expiry(), None, "the cleared entry left the wheel");
}

#[test]
fn a_cleared_id_can_be_set_again_earlier_and_later() {
    let now = Instant::now();
    let mut timers = Timers::new(now);
    let mut fired = Vec::new();
    for (round, seconds) in [50, 10, 70, 10, 10].into_iter().enumerate() {
        timers.set(1, now + Duration::from_secs(seconds));
        if round < 4 {
            timers.clear(1);
        }
    }
    timers.expire(now + Duration::from_secs(9), &mut fired);
    assert_eq!(fired, []);
    timers.expire(now + Duration::from_secs(10), &mut fired);
    assert_eq!(fired, [1]);
}

#[test]
fn slots_shared_by_many_ids_lose_nobody() {
    let now = Instant::now();
    let mut timers = Timers::new(now);
    for id in 0..10_000 {
        timers.set(id, now + Duration::from_secs(u64::from(id % 7)));
    }
    // Removes entries from the tail, the middle and the head of the lists.
    for remainder in [0, 2] {
        for id in (0..10_000).filter(|id| id % 3 == remainder) {
            timers.set(id, now);
        }
    }
    let mut fired = Vec::new();
    let mut seen = vec![0; 10_000];
    for second in 0..7 {
        timers.expire(now + Duration::from_secs(second), &mut fired);
        for &id in &fired {
            seen[id as usize] += 1;
            let due = if id % 3 == 1 { u64::from(id % 7) } else { 0 };
            assert_eq!(second, due, "id {id}");
        }
    }
    assert!(seen.iter().all(|&count| count == 1));
}

/// The cost depends on the entries involved, not on the days that pass.
#[test]
fn far_deadlines_and_long_sleeps() {
    let now = Instant::now();
    let mut timers = Timers::new(now);
    let mut fired = Vec::new();
    timers.set(0, now + 30 * DAY);
    timers.set(1, now + 3000 * DAY);
    timers.set(2, now + 1_000_000 * DAY);
    timers.expire(now + 30 * DAY - TICK, &mut fired);
    assert_eq!(fired, []);
    timers.expire(now + 30 * DAY, &mut fired);
    assert_eq!(fired, [0]);
    timers.expire(now + 3001 * DAY, &mut fired);
    assert_eq!(fired, [1]);
    timers.set(0, now + 3001 * DAY + TICK);
    timers.expire(now + 3001 * DAY + TICK, &mut fired);
    assert_eq!(fired, [0]);
    assert!(timers.next_expiry().is_some(), "the one beyond the horizon waits");
}
