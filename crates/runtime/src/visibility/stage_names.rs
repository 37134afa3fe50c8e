//! The names of stages, as small numbers that a kernel thread shows, a task notes and a parent
//! process reads.
//!
//! ```text
//!   task::stage("http: request")
//!        │ address and length
//!        ▼
//!   known, of this process:  │ address, length ▸ 3 │ … │     all that a later call costs
//!        │ not there yet: a cold path
//!        ▼
//!   names, in the table:     │ 1: accept │ 2: start │ 3: http: request │ …     copied, and never changed
//! ```
//!
//! A child process shows a number and not an address, because its parent does not have the child's
//! memory. The table is mapped before the first fork, and a child adds to it like its parent.

use std::sync::atomic::{AtomicU64, Ordering};

use super::label::{LONGEST, Label, MOST, cut};
use super::thread_slots;

/// The names that this process has used, each at the place of its address, or after it. 0 means no
/// name.
///
/// ```text
///   63         16 15        9 8       0
///   │ address (48) │ length (7) │ label (9) │
/// ```
static KNOWN: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

impl Label {
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
                return Self::from_bits((known & Self::MASK) as u16);
            }
            if known == 0 {
                return Self::learn(name, place, key);
            }
        }
        Self::NONE
    }

    /// Finds the name among those of all processes, or adds it there, and notes its place in
    /// `place`.
    #[cold]
    fn learn(name: &str, place: &AtomicU64, key: u64) -> Self {
        let index = thread_slots::names().and_then(|names| names.find_or_add(cut(name)));
        let label = index.map_or(Self::NONE, |index| Self::from_bits(index as u16 + 1));
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        // If another thread has taken the place meanwhile, the next call finds the name again.
        let _ = place.compare_exchange(0, key | u64::from(label.bits()), success, failure);
        label
    }

    /// The name. `None` for no stage.
    pub(crate) fn name(self) -> Option<String> {
        thread_slots::names()?.at(usize::from(self.bits()).checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn leaked(name: String) -> &'static str {
        /// The list shows Miri that these are leaked on purpose.
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
}
