//! The one source of decisions, and the running hash of all that was decided and sent.
//!
//! A decision is a number below a bound. 0 is always the tame one: no fault, the task that has
//! waited longest, the least latency. So a failing run is made small by setting decisions to 0.
//!
//! A list of decisions to make is apart for each kind. So a run without one kind of fault, or with
//! fewer reads, still meets the other decisions in their places.

use std::fmt;

/// What a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Profile,
    Host,
    Task,
    Priority,
    Clock,
    Turn,
    LateTimer,
    Latency,
    ShortMove,
    Bytes,
    EventOrder,
    LateEvent,
    Spurious,
    Interrupt,
    Refusal,
    Reset,
    Datagram,
    Disk,
    Offload,
    Preempt,
    Woken,
    Test,
}

impl Kind {
    /// All of them, each at its number.
    pub(crate) const ALL: [Self; KINDS] = [
        Self::Profile,
        Self::Host,
        Self::Task,
        Self::Priority,
        Self::Clock,
        Self::Turn,
        Self::LateTimer,
        Self::Latency,
        Self::ShortMove,
        Self::Bytes,
        Self::EventOrder,
        Self::LateEvent,
        Self::Spurious,
        Self::Interrupt,
        Self::Refusal,
        Self::Reset,
        Self::Datagram,
        Self::Disk,
        Self::Offload,
        Self::Preempt,
        Self::Woken,
        Self::Test,
    ];
}

/// The number of kinds.
const KINDS: usize = Kind::Test as usize + 1;

/// Decisions to make, in the order in which each kind comes. After its end, all are tame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script(pub(crate) [Vec<u64>; KINDS]);

impl Script {
    /// The decisions that were made.
    pub(crate) fn of(kept: &[Decision]) -> Self {
        let mut script = Self::default();
        for decision in kept {
            script.0[decision.kind as usize].push(decision.drawn);
        }
        script
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Profile => "which faults this seed has",
            Self::Host => "which host goes on",
            Self::Task => "which ready task runs",
            Self::Priority => "which priority a task has",
            Self::Clock => "how wrong a clock is",
            Self::Turn => "how long a turn takes",
            Self::LateTimer => "how late a timer is",
            Self::Latency => "how long a packet takes",
            Self::ShortMove => "whether a read or write is short",
            Self::Bytes => "how many bytes it moves",
            Self::EventOrder => "which event comes first",
            Self::LateEvent => "whether an event is late",
            Self::Spurious => "whether an event is spurious",
            Self::Interrupt => "whether a signal interrupts a call",
            Self::Refusal => "whether the kernel refuses a call",
            Self::Reset => "whether the network resets a connection",
            Self::Datagram => "whether a datagram is lost, doubled or overtaken",
            Self::Disk => "what a crash keeps of a file",
            Self::Offload => "how long offloaded work takes",
            Self::Preempt => "whether another thread goes on at a lock or a call",
            Self::Woken => "which waiting thread is woken",
            Self::Test => "what the test draws",
        })
    }
}

/// One decision of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) kind: Kind,
    pub(crate) bound: u64,
    pub(crate) drawn: u64,
    /// The hash of everything before it.
    pub(crate) hash: u64,
}

/// SplitMix64 (Steele, Lea & Flood 2014).
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x5DEE_CE66_D1CE_4E5B)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

pub(crate) struct Decisions {
    random: Random,
    hash: u64,
    count: usize,
    counts: [usize; KINDS],
    /// All decisions so far, if they are kept.
    kept: Option<Vec<Decision>>,
    /// The decisions to make, instead of those of the seed.
    script: Option<Script>,
}

impl Decisions {
    /// Decisions of a seed, or those of a `script`. `keeps` them, if they are asked for later.
    pub(crate) fn new(seed: u64, script: Option<Script>, keeps: bool) -> Self {
        let kept = keeps.then(Vec::new);
        Self {
            random: Random::new(seed),
            hash: 0xCBF2_9CE4_8422_2325,
            count: 0,
            counts: [0; KINDS],
            kept,
            script,
        }
    }

    /// One of `0..bound`.
    pub(crate) fn draw(&mut self, kind: Kind, bound: u64) -> u64 {
        if bound <= 1 {
            return 0;
        }
        let drawn = match &self.script {
            Some(Script(kinds)) => {
                let place = self.counts[kind as usize];
                kinds[kind as usize].get(place).copied().unwrap_or(0).min(bound - 1)
            }
            None => ((u128::from(self.random.next()) * u128::from(bound)) >> 64) as u64,
        };
        if let Some(kept) = &mut self.kept {
            kept.push(Decision { kind, bound, drawn, hash: self.hash });
        }
        self.note(((kind as u64) << 56) ^ (bound << 28) ^ drawn);
        self.count += 1;
        self.counts[kind as usize] += 1;
        drawn
    }

    /// Whether something with this chance in a thousand happens.
    pub(crate) fn happens(&mut self, kind: Kind, per_thousand: u64) -> bool {
        per_thousand > 0 && self.draw(kind, 1000) >= 1000 - per_thousand.min(1000)
    }

    /// Adds what happened to the hash.
    pub(crate) fn note(&mut self, value: u64) {
        self.hash = (self.hash ^ value).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
    }

    pub(crate) fn note_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.note(u64::from_le_bytes(word));
        }
        self.note(bytes.len() as u64);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn take_kept(&mut self) -> Vec<Decision> {
        self.kept.take().unwrap_or_default()
    }
}

/// The first decision in which two runs differ, in words.
pub(crate) fn first_difference(one: &[Decision], other: &[Decision]) -> String {
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    match differs.or((one.len() != other.len()).then_some(one.len().min(other.len()))) {
        None => "all decisions are the same; what was sent at the end differs".to_owned(),
        Some(index) => {
            let tell = |decisions: &[Decision]| match decisions.get(index) {
                None => "the run ends".to_owned(),
                Some(Decision { kind, bound, drawn, .. }) => {
                    format!("{kind} ({drawn} of {bound})")
                }
            };
            let same_question = matches!((one.get(index), other.get(index)),
                (Some(one), Some(other)) if (one.kind, one.bound) == (other.kind, other.bound));
            let before = match same_question {
                true => "; something else was sent before it",
                false => "",
            };
            format!("decision {index}: {}, then {}{before}", tell(one), tell(other))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_at_its_number() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }

    #[test]
    fn a_script_is_followed_and_then_all_is_tame() {
        let mut first = Decisions::new(7, None, true);
        let drawn: Vec<u64> = (0..20).map(|_| first.draw(Kind::Test, 10)).collect();
        assert!(drawn.iter().any(|number| *number > 0));
        let script = Script::of(&first.take_kept());
        let mut again = Decisions::new(0, Some(script), false);
        assert_eq!((0..20).map(|_| again.draw(Kind::Test, 10)).collect::<Vec<_>>(), drawn);
        assert_eq!(again.hash(), first.hash());
        assert_eq!((again.draw(Kind::Test, 10), again.draw(Kind::Test, 1)), (0, 0));
    }

    #[test]
    fn the_first_difference_is_named() {
        let run = |drawn: &[u64]| {
            let mut script = Script::default();
            script.0[Kind::Task as usize] = drawn.to_vec();
            let mut decisions = Decisions::new(0, Some(script), true);
            drawn.iter().for_each(|_| _ = decisions.draw(Kind::Task, 4));
            decisions.take_kept()
        };
        let difference = first_difference(&run(&[1, 2, 3]), &run(&[1, 3, 3]));
        assert_eq!(
            difference,
            "decision 1: which ready task runs (2 of 4), then which ready task runs (3 of 4); \
             something else was sent before it"
        );
        assert!(
            first_difference(&run(&[1]), &run(&[1, 1])).starts_with("decision 1: the run ends")
        );
    }
}
