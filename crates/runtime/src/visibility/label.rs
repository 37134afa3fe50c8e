//! The names of stages, as small numbers: what a kernel thread shows, a task notes and a parent
//! process reads.
//!
//! ```text
//!   task::stage("http: request")
//!        │ address and length
//!        ▼
//!   known, of this process:  │ address, length ▸ 3 │ … │     after the first call, all that a stage costs
//!        │ not there yet: a cold path
//!        ▼
//!   names, in the table:     │ 1: accept │ 2: start │ 3: http: request │ …     copied, and never changed
//! ```
//!
//! A child process shows a number and not an address: what a child has leaked, its parent does not
//! have. The table is mapped before a child is forked, and a child adds to it as its parent does.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::thread_slots;

/// The name of a stage, by its place among the names, from 1; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label(u16);

/// More stages than a program has. One that finds no place has no name in dumps.
const MOST: usize = 256;
/// Bytes of a name, at most; of a longer one the beginning is shown.
const LONGEST: usize = 127;

/// The names that this process has used, each at the place that its address leads to, or after it;
/// 0 is none.
///
/// ```text
///   63         16 15        9 8       0
///   │ address (48) │ length (7) │ label (9) │
/// ```
static KNOWN: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

impl Label {
    pub(crate) const NONE: Self = Self(0);
    /// The most that the number of a label is.
    pub(crate) const MOST: usize = MOST;

    /// As many as a number up to [`MOST`] has.
    pub(crate) const BITS: u32 = MOST.ilog2() + 1;
    const MASK: u64 = (1 << Self::BITS) - 1;

    /// User-space addresses have 47 bits on x86-64 and 48 on aarch64, unless mmap(2) is asked for
    /// more.
    const ADDRESS_BITS: u32 = 48;

    #[inline]
    pub(crate) fn new(name: &'static str) -> Self {
        let address = name.as_ptr().addr() as u64;
        let length = name.len().min(LONGEST) as u64;
        if length == 0 || address >> Self::ADDRESS_BITS != 0 {
            return Self::NONE;
        }
        let key = address << (u64::BITS - Self::ADDRESS_BITS) | length << Self::BITS;
        let start = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize;
        for step in 0..MOST {
            let place = &KNOWN[(start + step) % MOST];
            let known = place.load(Ordering::Relaxed);
            if known & !Self::MASK == key {
                return Self((known & Self::MASK) as u16);
            }
            if known == 0 {
                return Self::learn(name, place, key);
            }
        }
        Self::NONE
    }

    /// Finds the name among those of all processes, or adds it there, and notes in `place` where it
    /// is.
    #[cold]
    fn learn(name: &str, place: &AtomicU64, key: u64) -> Self {
        let index = thread_slots::names().and_then(|names| names.find_or_add(cut(name)));
        let label = index.map_or(Self::NONE, |index| Self(index as u16 + 1));
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        // Should another thread have taken the place meanwhile, the next call finds the name again.
        let _ = place.compare_exchange(0, key | u64::from(label.0), success, failure);
        label
    }

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// Those of a label; others name none.
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The name; `None` where there is none.
    pub(crate) fn name(self) -> Option<String> {
        thread_slots::names()?.at(usize::from(self.0).checked_sub(1)?)
    }
}

/// As much of the name as is kept, cut between characters.
pub(super) fn cut(name: &str) -> &str {
    let mut ends = (0..=name.len().min(LONGEST)).rev();
    ends.find_map(|end| name.get(..end)).unwrap_or_default()
}

/// The names of this process and its children, in memory that they share. All zeroes is a table
/// without names.
#[repr(C)]
pub(super) struct Names<const COUNT: usize = MOST>([Name; COUNT]);

/// A name, which is added once and stays. Who reads it copies it: a child that has gone wrong may
/// write here too, and shall harm nothing but what is shown.
#[repr(C)]
struct Name {
    /// Its bytes, or [`FREE`], or [`TAKEN`].
    length: AtomicU8,
    text: [AtomicU8; LONGEST],
}

const FREE: u8 = 0;
/// It is being written. Should the writer die of that, the place is lost.
const TAKEN: u8 = u8::MAX;

impl<const COUNT: usize> Names<COUNT> {
    /// Where the name is, which may be added for it; `None` when there is no room for more names.
    /// Two that add the same at once may add it twice.
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
    use std::sync::Mutex;

    use super::*;

    fn leaked(name: String) -> &'static str {
        /// So that Miri sees that they are wanted.
        static LEAKED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
        let name = Box::leak(name.into_boxed_str());
        LEAKED.lock().unwrap().push(name);
        name
    }

    #[test]
    fn a_label_is_the_name_it_was_made_of() {
        for name in ["read", "http: wait for a request", "Größe"] {
            let label = Label::new(name);
            assert_eq!(label.name().as_deref(), Some(name));
            assert_eq!(Label::from_bits(label.bits()), label);
        }
        let name = "a name and its beginning";
        assert_eq!(Label::new(&name[..6]).name().as_deref(), Some("a name"));
        assert_eq!(Label::new("").name(), None);
        assert_eq!(Label::NONE.name(), None);
        assert_eq!(Label::from_bits(u16::MAX).name(), None);
    }

    #[test]
    fn many_names_are_kept_apart_and_the_same_is_kept_once() {
        let count = if cfg!(miri) { 10 } else { 100 };
        let names: Vec<_> = (0..count).map(|number| leaked(format!("stage {number}"))).collect();
        for _ in 0..2 {
            for &name in &names {
                assert_eq!(Label::new(name).name().as_deref(), Some(name));
            }
        }
        let elsewhere = leaked("stage 7".to_owned());
        assert_eq!(Label::new(elsewhere), Label::new(names[7]));
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_between_characters() {
        let name = Label::new(leaked("ö".repeat(400))).name();
        assert_eq!(name, Some("ö".repeat(LONGEST / 2)));
    }

    #[test]
    fn names_without_a_place_are_none() {
        let name =
            |_| Name { length: AtomicU8::new(FREE), text: array::from_fn(|_| AtomicU8::new(0)) };
        let names = Names::<2>(array::from_fn(name));
        // The writer of the first has died.
        names.0[0].length.store(TAKEN, Ordering::Relaxed);
        assert_eq!(
            ["one", "two", "one"].map(|name| names.find_or_add(name)),
            [Some(1), None, Some(1)]
        );
        assert_eq!([0, 1, 2].map(|index| names.at(index)), [None, Some("one".to_owned()), None]);
        // A child has gone wrong.
        names.0[1].length.store(LONGEST as u8 + 1, Ordering::Relaxed);
        assert_eq!(names.at(1), None);
        names.0[1].length.store(1, Ordering::Relaxed);
        names.0[1].text[0].store(0xFF, Ordering::Relaxed);
        assert_eq!(names.at(1), None);
    }
}
