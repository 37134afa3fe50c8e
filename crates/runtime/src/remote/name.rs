//! The name of a task: one word, with which any kernel thread can wake the task.

use std::num::NonZero;

const _: () = assert!(usize::BITS == 64, "a task's name needs a word of 64 bits");

/// A task of some loop of this process.
///
/// ```text
///   63        54 53                          26 25                     0
///   │ loop (10) │ serial of the task (28)      │ slot of the task (26) │
/// ```
///
/// Loops have numbers from 1, so that a name is not 0, and a missing name is a word as well. The
/// slot is the task's place in the table. The serial distinguishes the tasks that use a slot one
/// after the other. It is the low bits of the loop's count of tasks. A serial that does not match
/// shows a stale name. After 2^28 later tasks the serial may match again. Then the wake is
/// spurious, which every wait allows for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskName(NonZero<u64>);

impl TaskName {
    pub(crate) const SLOTS: usize = 1 << Self::SLOT_BITS;
    const SLOT_BITS: u32 = 26;
    const SERIAL_BITS: u32 = 28;

    /// The name of a loop's first task in its first slot.
    ///
    /// # Panics
    ///
    /// If the number is 0.
    pub(crate) fn first(loop_number: u16) -> Self {
        let bits = u64::from(loop_number) << (Self::SERIAL_BITS + Self::SLOT_BITS);
        Self(NonZero::new(bits).expect("loops have numbers from 1"))
    }

    /// The name of another task of the loop, from the name of its first task. Only the low bits of
    /// the serial are used.
    #[inline]
    pub(crate) fn of(self, serial: u32, slot: u32) -> Self {
        let serial = u64::from(serial) & ((1 << Self::SERIAL_BITS) - 1);
        Self(self.0 | serial << Self::SLOT_BITS | u64::from(slot))
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0.get()
    }

    /// The name with these bits, unless the bits are 0.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        NonZero::new(bits).map(Self)
    }

    pub(crate) const fn loop_number(self) -> u16 {
        (self.bits() >> (Self::SERIAL_BITS + Self::SLOT_BITS)) as u16
    }

    pub(crate) const fn serial(self) -> u32 {
        (self.bits() >> Self::SLOT_BITS) as u32 & ((1 << Self::SERIAL_BITS) - 1)
    }

    pub(crate) const fn slot(self) -> u32 {
        self.bits() as u32 & ((1 << Self::SLOT_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_packing() {
        for number in [1, 77, 1023] {
            for (serial, slot) in [(0, 0), (77, 1), ((1 << 28) - 1, (1 << 26) - 1)] {
                let name = TaskName::first(number).of(serial, slot);
                assert_eq!(
                    (name.loop_number(), name.serial(), name.slot()),
                    (number, serial, slot)
                );
                assert_eq!(TaskName::from_bits(name.bits()), Some(name));
            }
        }
        assert_eq!(TaskName::first(1).of(1 << 28, 5), TaskName::first(1).of(0, 5));
    }
}
