//! Finds the task that holds up a loop.
//!
//! A loop counts each turn that it gives to a task, and shows which task has the turn. A watcher
//! that sees one turn for longer than the threshold has found a stall, while the stall lasts. The
//! loop reads no clock for this purpose. So a stall is found if it lasts for the threshold and one
//! more look.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use duality_runtime::log;
use duality_runtime::visibility::{self, LoopTurn, TaskTurn};

use crate::failure::{Blame, Failure, Party};

/// The number of looks at the loops in each threshold. So a stall's length is known to an eighth of
/// the threshold.
const LOOKS: u32 = 8;

/// The most stalls that are reported in a second, each in at most two lines. For further stalls,
/// one line has their number.
const LINES: u32 = 10;

/// The state of the loops.
pub(super) struct Stalls {
    threshold: Duration,
    /// The last seen turn of each loop, by the loop's kernel thread.
    seen: HashMap<u32, SeenTurn>,
    quota: Quota,
}

struct SeenTurn {
    turn: Option<TaskTurn>,
    /// The time at which this turn was first seen.
    since: Instant,
    /// The task and its stage, if they have been reported.
    told: Option<String>,
}

impl Stalls {
    /// Prepares to find turns longer than `threshold`.
    pub(super) fn new(threshold: Duration) -> Result<Self, Failure> {
        visibility::install_sampling().blame_at(Party::Machine, "--stall")?;
        let quota = Quota { second: Instant::now(), told: 0, untold: 0 };
        Ok(Self { threshold, seen: HashMap::new(), quota })
    }

    /// The pause before the next look.
    pub(super) fn pause(&self) -> Duration {
        self.threshold / LOOKS
    }

    /// Looks at all loops, and reports new stalls.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        for turn in visibility::loops() {
            self.look_at(&turn, now);
        }
        if let Some(line) = self.quota.renew(now) {
            log::warn(line);
        }
    }

    fn look_at(&mut self, turn: &LoopTurn, now: Instant) {
        let fresh = SeenTurn { turn: turn.turn, since: now, told: None };
        let seen = self.seen.entry(turn.thread).or_insert(fresh);
        let held = now - seen.since;
        if let (true, Some(task)) = (seen.turn == turn.turn, turn.turn) {
            if held >= self.threshold && seen.told.is_none() {
                let who = format!(
                    "task {}, stage {}",
                    task.task(),
                    task.stage().as_deref().unwrap_or("-")
                );
                if self.quota.admits() {
                    let place = where_it_is(turn);
                    log::warn(format_args!(
                        "stall: {who}, has held its loop (thread {}) for {} ms{place}",
                        turn.thread,
                        held.as_millis()
                    ));
                }
                seen.told = Some(who);
            }
            return;
        }
        if let Some(who) = seen.told.take()
            && self.quota.tells_end()
        {
            log::warn(format_args!(
                "stall over: {who}, held its loop (thread {}) for {} ms",
                turn.thread,
                held.as_millis()
            ));
        }
        *seen = SeenTurn { turn: turn.turn, since: now, told: None };
    }
}

/// The function that a loop executes, if the loop answers and is still at this turn.
fn where_it_is(turn: &LoopTurn) -> String {
    let Some(instruction) = visibility::sample(turn.thread) else { return String::new() };
    let names = visibility::name_instruction(instruction);
    names.first().map_or_else(String::new, |name| format!(", in {name}"))
}

/// A service that always stalls must not fill the disk.
struct Quota {
    second: Instant,
    told: u32,
    untold: u32,
}

impl Quota {
    /// Whether one more stall may be reported.
    fn admits(&mut self) -> bool {
        let admitted = self.told < LINES;
        self.told += u32::from(admitted);
        self.untold += u32::from(!admitted);
        admitted
    }

    /// Whether the end of a stall may be reported: only if all beginnings were.
    fn tells_end(&self) -> bool {
        self.untold == 0
    }

    /// Begins another second, if the last is over. Returns how many stalls were not reported in the
    /// last.
    fn renew(&mut self, now: Instant) -> Option<String> {
        if now - self.second < Duration::from_secs(1) {
            return None;
        }
        let untold = std::mem::take(&mut self.untold);
        (self.second, self.told) = (now, 0);
        (untold > 0).then(|| format!("stall: {untold} more within a second"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_a_quota() {
        let start = Instant::now();
        let mut quota = Quota { second: start, told: 0, untold: 0 };
        assert_eq!((0..13).filter(|_| quota.admits()).count(), LINES as usize);
        assert!(!quota.tells_end());
        assert_eq!(quota.renew(start), None);
        let line = quota.renew(start + Duration::from_secs(1)).unwrap();
        assert!(line.contains("3 more"), "{line}");
        assert!(quota.admits() && quota.tells_end());
    }
}
