//! The shown state of a task while it has its turn. The state is one word, so a store writes it and
//! a load reads it completely.

use super::Label;

/// A task's number in its loop, its last stage, and the number of its turn.
///
/// ```text
///   63   62      41 40       32 31                      0
///   │ 1 │ turn (22) │ stage (9) │ number (32)            │
/// ```
///
/// The word is never 0, which stands for no task. Only the low bits of the turn are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownTask(u64);

impl ShownTask {
    const IS_TASK: u64 = 1 << 63;
    const STAGE_AT: u32 = 32;
    const TURN_AT: u32 = Self::STAGE_AT + Label::BITS;

    /// A task that has reached no stage, in no turn.
    #[inline]
    pub(crate) const fn new(number: u32) -> Self {
        Self(Self::IS_TASK | number as u64)
    }

    /// The task at a stage, in no turn.
    pub(crate) const fn at(self, stage: Label) -> Self {
        Self(Self::IS_TASK | (stage.bits() as u64) << Self::STAGE_AT | self.number() as u64)
    }

    /// The task in this turn. The task must be in no turn yet.
    #[inline]
    pub(crate) const fn during(self, turn: usize) -> Self {
        Self(self.0 | (turn as u64) << Self::TURN_AT)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const fn stage(self) -> Label {
        Label::from_bits((self.0 >> Self::STAGE_AT) as u16 & ((1 << Label::BITS) - 1))
    }

    /// The state as if the task had reached no stage.
    pub(crate) const fn without_stage(self) -> Self {
        Self(self.0 & !(((1 << Label::BITS) - 1) << Self::STAGE_AT))
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The shown task with these bits, unless they are 0.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        (bits != 0).then_some(Self(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_task_survives_packing() {
        let stage = Label::new("stage of a shown task");
        for number in [0, 1, u32::MAX] {
            let shown = ShownTask::new(number);
            assert_eq!((shown.number(), shown.stage()), (number, Label::NONE));
            let staged = shown.at(stage);
            for turn in [0, 1, usize::MAX] {
                let seen = ShownTask::from_bits(staged.during(turn).bits()).unwrap();
                assert_eq!((seen.number(), seen.stage()), (number, stage));
                assert_ne!(seen, staged.during(turn.wrapping_add(1)));
                assert_eq!(seen.without_stage(), shown.during(turn));
            }
            assert_eq!(staged.at(Label::NONE), shown);
        }
        assert_eq!(ShownTask::from_bits(0), None);
    }
}
