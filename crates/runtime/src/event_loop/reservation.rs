//! Address space for a table that grows in place. The table's entries never move.
//!
//! ```text
//!   first                                                                    length
//!   │◀─────────────────────────────────────────────────────────────────────────▶│
//!   │ usable: read and written, and │ reserved: without access, so that neither memory │
//!   │ resident as far as touched    │ nor the kernel's promise of memory is taken up   │
//! ```
//!
//! So an addition finds an entry, and the entry's address is valid for as long as the table.

use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;

use crate::pages;

/// Room for a number of values of a type. The code that writes a value drops it.
pub(crate) struct Reservation<T> {
    first: NonNull<T>,
    length: usize,
    usable: Cell<usize>,
}

impl<T> Reservation<T> {
    /// The number of values that become usable at a time: 1 MiB.
    const STEP: usize = (1 << 20) / size_of::<T>();

    /// Reserves room for `most` values. Under a limit on address space (`RLIMIT_AS`), reserves at
    /// most a sixty-fourth of the limit, because stacks and the heap need address space too.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is not enough address space.
    pub(crate) fn new(most: usize) -> io::Result<Self> {
        const { assert!(size_of::<T>().is_power_of_two() && size_of::<T>() <= 4096) };
        let length = Self::length_within(most, pages::limit());
        let first = pages::reserve(length * size_of::<T>())?.cast();
        Ok(Self { first, length, usable: Cell::new(0) })
    }

    /// The length is a multiple of the steps.
    fn length_within(most: usize, limit: Option<u64>) -> usize {
        let bytes = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        most.min(bytes / 64 / size_of::<T>()).max(1).next_multiple_of(Self::STEP)
    }

    /// The number of values with room.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The address of a value.
    ///
    /// # Safety
    ///
    /// The room is for more than `index` values.
    #[inline]
    pub(crate) unsafe fn place(&self, index: usize) -> NonNull<T> {
        // SAFETY: the caller promises that the address is within the mapping.
        unsafe { self.first.add(index) }
    }

    /// Makes the place of a value usable, and all places before it. If there is no memory for it,
    /// ends the process, as every allocation does.
    ///
    /// # Panics
    ///
    /// If there is no room for this many values.
    pub(crate) fn make_usable(&self, index: usize) {
        assert!(index < self.length, "there is room for {} values", self.length);
        let from = self.usable.get();
        if index < from {
            return;
        }
        let step = (index + 1 - from).next_multiple_of(Self::STEP);
        let bytes = step * size_of::<T>();
        // SAFETY: room comes in steps, so these bytes are within the reserved mapping, which is
        // ours.
        let granted = unsafe { pages::make_usable(self.first.add(from).cast(), bytes) };
        if granted.is_err() {
            handle_alloc_error(Layout::array::<T>(step).expect("a part of a mapping"));
        }
        self.usable.set(from + step);
    }
}

impl<T> Drop for Reservation<T> {
    fn drop(&mut self) {
        // SAFETY: `new` has reserved this many bytes, and their content is not used again.
        unsafe { pages::give_back(self.first.cast(), self.length * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_a_row_and_stay_as_they_become_usable() {
        let room = Reservation::<u64>::new(1 << 20).unwrap();
        assert_eq!(room.length(), 1 << 20);
        for index in [0, 5, (1 << 17) - 1, 1 << 17, (1 << 20) - 1] {
            room.make_usable(index);
            // SAFETY: the place is within the room, and usable.
            unsafe { room.place(index).write(index as u64) };
        }
        // SAFETY: the place is within the room, usable, and written.
        let read = |index| unsafe { room.place(index).read() };
        assert_eq!([0, 5, (1 << 20) - 1].map(read), [0, 5, (1 << 20) - 1]);
    }

    #[test]
    #[should_panic(expected = "room for")]
    fn there_is_no_more_than_was_reserved() {
        let room = Reservation::<u64>::new(1).unwrap();
        room.make_usable(room.length());
    }

    #[test]
    fn a_limit_leaves_most_of_the_address_space_to_others() {
        let within = |limit| Reservation::<u64>::length_within(1 << 26, limit);
        assert_eq!(within(None), 1 << 26);
        assert_eq!(within(Some(1 << 40)), 1 << 26);
        assert_eq!(within(Some(1 << 30)) * 8, 1 << 24);
        assert_eq!(within(Some(1)) * 8, 1 << 20, "a step is the least");
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(Reservation::<u64>::new(1 << 50).is_err());
    }
}
