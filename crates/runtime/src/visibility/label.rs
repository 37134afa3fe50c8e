//! Labels, and the table of their names, in memory that child processes share.
//!
//! The table is mapped before the first fork, and a child adds to it like its parent.
//! `stage_names.rs` maps a name to its label and back.

use std::sync::atomic::{AtomicU8, Ordering};

/// The name of a stage, as the name's place in the table, from 1. 0 means no stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label(u16);

/// A limit above the number of stages of a program. A stage without a place has no name in dumps.
pub(super) const MOST: usize = 256;
/// The most bytes of a name. Of a longer name, the beginning is shown.
pub(super) const LONGEST: usize = 127;

impl Label {
    pub(crate) const NONE: Self = Self(0);
    /// The largest number of a label.
    pub(crate) const MOST: usize = MOST;

    /// The number of bits of a number up to [`MOST`].
    pub(crate) const BITS: u32 = MOST.ilog2() + 1;
    pub(super) const MASK: u64 = (1 << Self::BITS) - 1;

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// The label with these bits. Bits without a label give no name.
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

/// The kept part of the name, cut between characters.
pub(super) fn cut(name: &str) -> &str {
    let mut ends = (0..=name.len().min(LONGEST)).rev();
    ends.find_map(|end| name.get(..end)).unwrap_or_default()
}

/// The names of this process and its children, in shared memory. All zeroes are a table without
/// names.
#[repr(C)]
pub(super) struct Names<const COUNT: usize = MOST>([Name; COUNT]);

/// A name, which is added once and stays. A reader copies the name. A faulty child may write here
/// too, and must not harm more than the output.
#[repr(C)]
struct Name {
    /// The number of bytes, or [`FREE`], or [`TAKEN`].
    length: AtomicU8,
    text: [AtomicU8; LONGEST],
}

const FREE: u8 = 0;
/// A writer is filling the place. If the writer dies meanwhile, the place is lost.
const TAKEN: u8 = u8::MAX;

impl<const COUNT: usize> Names<COUNT> {
    /// Returns the place of the name, and adds the name if needed. `None` if there is no room for
    /// more names. Two threads that add one name at the same time may add it twice.
    pub(super) fn find_or_add(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|place| place.is(name) || place.take(name))
    }

    pub(super) fn at(&self, index: usize) -> Option<String> {
        String::from_utf8(self.0.get(index)?.bytes()?.collect()).ok()
    }
}

impl Name {
    fn bytes(&self) -> Option<impl Iterator<Item = u8>> {
        let length = self.length.load(Ordering::Acquire);
        let text = self.text.get(..length.into()).filter(|text| !text.is_empty());
        text.map(|text| text.iter().map(|byte| byte.load(Ordering::Relaxed)))
    }

    fn is(&self, name: &str) -> bool {
        self.bytes().is_some_and(|bytes| bytes.eq(name.bytes()))
    }

    /// Writes the name here, if the place is free.
    fn take(&self, name: &str) -> bool {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.length.compare_exchange(FREE, TAKEN, success, failure).is_err() {
            return false;
        }
        for (place, byte) in self.text.iter().zip(name.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
        self.length.store(name.len() as u8, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::array;

    use super::*;

    #[test]
    fn names_without_a_place_are_none() {
        let name =
            |_| Name { length: AtomicU8::new(FREE), text: array::from_fn(|_| AtomicU8::new(0)) };
        let names = Names::<2>(array::from_fn(name));
        // The writer of the first place has died.
        names.0[0].length.store(TAKEN, Ordering::Relaxed);
        assert_eq!(
            ["one", "two", "one"].map(|name| names.find_or_add(name)),
            [Some(1), None, Some(1)]
        );
        assert_eq!([0, 1, 2].map(|index| names.at(index)), [None, Some("one".to_owned()), None]);
        // A child has written a wrong length.
        names.0[1].length.store(LONGEST as u8 + 1, Ordering::Relaxed);
        assert_eq!(names.at(1), None);
        names.0[1].length.store(1, Ordering::Relaxed);
        names.0[1].text[0].store(0xFF, Ordering::Relaxed);
        assert_eq!(names.at(1), None);
    }
}
