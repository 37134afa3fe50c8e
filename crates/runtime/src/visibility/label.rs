//! A `&'static str` in one word, so that another kernel thread, or the parent process, reads the name of
//! a stage whole or not at all.

use std::sync::atomic::{AtomicU64, Ordering};

/// The name of a stage; the empty name is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label(u64);

impl Label {
    pub(crate) const NONE: Self = Self(0);

    /// User-space addresses have 47 bits on x86-64 and 48 on aarch64, where nobody asks mmap(2) for more.
    const ADDRESS_BITS: u32 = 48;

    /// A longer name than 65,535 bytes is cut.
    #[inline]
    pub(crate) fn new(name: &'static str) -> Self {
        let address = name.as_ptr().expose_provenance() as u64;
        let length = floor(name, usize::from(u16::MAX)) as u64;
        if length == 0 || address >> Self::ADDRESS_BITS != 0 {
            return Self::NONE;
        }
        Self(length << Self::ADDRESS_BITS | address)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// # Safety
    ///
    /// `bits` are those of a label made in this process, or in one that forked off it or that it forked
    /// off: their programs lie at the same addresses.
    pub(crate) const unsafe fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The name; `None` where there is none.
    pub(crate) fn name(self) -> Option<&'static str> {
        if self == Self::NONE {
            return None;
        }
        let address = (self.0 & ((1 << Self::ADDRESS_BITS) - 1)) as usize;
        let length = (self.0 >> Self::ADDRESS_BITS) as usize;
        let bytes = std::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: the word was made of a string that lives as long as the program, of at least this many
        // bytes, cut between characters.
        Some(unsafe { str::from_utf8_unchecked(std::slice::from_raw_parts(bytes, length)) })
    }
}

/// A label's place in the process's table of labels: small enough for a task's control block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShortLabel(u16);

/// The labels that have been made short, each at the place that its address leads to, or after it; 0 is none.
static SHORT: [AtomicU64; ShortLabel::MOST] = [const { AtomicU64::new(0) }; ShortLabel::MOST];

impl ShortLabel {
    /// More stages than a program has. One that finds no place has no name in dumps.
    const MOST: usize = 256;
    /// As many as a number up to `MOST` has.
    pub(crate) const BITS: u32 = Self::MOST.ilog2() + 1;

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// Those of a label; others name none.
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(crate) fn label(self) -> Label {
        let place = usize::from(self.0).checked_sub(1).and_then(|place| SHORT.get(place));
        place.map_or(Label::NONE, |label| Label(label.load(Ordering::Relaxed)))
    }
}

impl Label {
    #[inline]
    pub(crate) fn short(self) -> ShortLabel {
        if self == Self::NONE {
            return ShortLabel::default();
        }
        let start = (self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize;
        for step in 0..ShortLabel::MOST {
            let place = (start + step) % ShortLabel::MOST;
            let mut there = SHORT[place].load(Ordering::Relaxed);
            if there == 0 {
                let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
                let taken = SHORT[place].compare_exchange(0, self.0, success, failure);
                there = taken.map_or_else(|other| other, |_| self.0);
            }
            if there == self.0 {
                return ShortLabel(place as u16 + 1);
            }
        }
        ShortLabel::default()
    }
}

/// The most bytes, up to `most`, after which `text` can be cut.
#[inline]
fn floor(text: &str, most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    (0..=most).rev().find(|&index| text.is_char_boundary(index)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_the_name_it_was_made_of() {
        for name in ["read", "http: wait for a request", "Größe"] {
            let label = Label::new(name);
            assert_eq!(label.name(), Some(name));
            // SAFETY: the bits are those of a label of this process.
            assert_eq!(unsafe { Label::from_bits(label.bits()) }.name(), Some(name));
        }
        assert_eq!(Label::new("").name(), None);
        assert_eq!(Label::NONE.name(), None);
    }

    #[test]
    fn a_short_label_is_the_one_that_it_was_made_of() {
        let names: Vec<&'static str> = (0..100)
            .map(|number| &*Box::leak(format!("stage {number}").into_boxed_str()))
            .collect();
        for _ in 0..2 {
            for &name in &names {
                assert_eq!(Label::new(name).short().label().name(), Some(name));
            }
        }
        assert_eq!(Label::NONE.short().label(), Label::NONE);
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_between_characters() {
        let long: &'static str = Box::leak("ö".repeat(40_000).into_boxed_str());
        assert_eq!(Label::new(long).name().map(str::len), Some(65_534));
    }
}
