//! Which ready task of a host has the next turn: drawn at random, or by priorities.
//!
//! By priorities is PCT (Burckhardt et al. 2010): each task draws one when it is first ready, and
//! the highest goes first. At some choices, which the seed has drawn before, the highest task falls
//! behind all others. An error that needs few such changes is found more often than by drawing each
//! task. Tasks of one priority go in the order in which they became ready, so that 0 is tame.

use std::collections::BTreeMap;

use duality_runtime::event_loop::ReadyTasks;

use crate::decisions::Kind;
use crate::network::Network;
use crate::process::AbleThreads;

/// The bound of a priority.
const PRIORITIES: u64 = 1 << 16;

/// A task is passed over this often at most. A task that runs in circles would starve the others.
const PATIENCE: u32 = 100;

/// What one is chosen of: tasks of a loop, or threads of a program, the least recent first.
pub(crate) trait Choice {
    fn count(&self) -> usize;

    /// The numbers. `None` is passed over.
    fn numbers(&self) -> impl Iterator<Item = Option<u32>>;
}

impl Choice for ReadyTasks<'_> {
    fn count(&self) -> usize {
        ReadyTasks::count(self)
    }

    fn numbers(&self) -> impl Iterator<Item = Option<u32>> {
        ReadyTasks::numbers(self)
    }
}

impl Choice for AbleThreads {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn numbers(&self) -> impl Iterator<Item = Option<u32>> {
        self.0.iter().map(|(_, number)| Some(*number))
    }
}

/// The order of one host's tasks or threads.
#[derive(Default)]
pub(crate) struct Order {
    /// By the number of the task.
    priorities: BTreeMap<u32, i64>,
    /// How many tasks have fallen behind.
    fallen: i64,
    /// How often in a row the task that has waited longest was passed over.
    passed: u32,
}

impl Order {
    /// The place of the task that has the next turn.
    pub(crate) fn choose(&mut self, ready: &impl Choice, net: &mut Network) -> usize {
        match net.profile.changes {
            None => net.draw(Kind::Task, ready.count().min(net.profile.tasks) as u64) as usize,
            Some(changes) => {
                net.choices += 1;
                if changes.contains(&net.choices)
                    && let Some(first) = self.highest(ready, net).number
                {
                    self.fallen += 1;
                    self.priorities.insert(first, -self.fallen);
                    net.counts.priority_changes += 1;
                    net.tell(|_| "    ▸ a task falls behind all others".to_owned());
                }
                let place = self.highest(ready, net).place;
                let place = if self.passed < PATIENCE { place } else { 0 };
                self.passed = if place == 0 { 0 } else { self.passed + 1 };
                place
            }
        }
    }

    /// The first task of the highest priority.
    fn highest(&mut self, ready: &impl Choice, net: &mut Network) -> Highest {
        let mut highest = Highest { place: 0, number: None, priority: i64::MIN };
        for (place, number) in ready.numbers().enumerate() {
            let Some(number) = number else { continue };
            let draw = || net.draw(Kind::Priority, PRIORITIES) as i64;
            let priority = *self.priorities.entry(number).or_insert_with(draw);
            if priority > highest.priority {
                highest = Highest { place, number: Some(number), priority };
            }
        }
        highest
    }
}

struct Highest {
    place: usize,
    number: Option<u32>,
    priority: i64,
}
