//! Bytes on their way: copies of the bytes that tasks have written, until the kernel has sent them.
//!
//! A write is done when its bytes are in this memory. With other pollers, it is done when they are
//! in the socket's buffer. The kernel reads the bytes at any time before the completion, so each
//! write has memory of its own. The memory that was used last is reused first, because it is still
//! in the caches.

use std::io::{self, IoSlice};

use crate::Token;

/// The most that one flight carries; a longer write takes several. The allocator would give the
/// pages of much more back to the kernel at each end, and take them again for the next flight.
const MOST: usize = 16 * 1024;

/// What one request sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight(pub(super) u32);

#[derive(Default)]
pub(super) struct Sends {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    /// The bytes. The kernel may read them until the flight has landed.
    bytes: Vec<u8>,
    /// The owner, which is told of the flight's end.
    owner: Owner,
    /// The generation: the number of flights that have landed here.
    landed: u32,
}

/// The source that sends the bytes: its token and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) token: Token,
    pub(super) generation: u32,
}

impl Sends {
    /// Copies as many bytes of `buffers` as one flight carries. Returns the flight and the number
    /// of bytes.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub(super) fn load(
        &mut self,
        buffers: &[IoSlice<'_>],
        owner: Owner,
    ) -> io::Result<(Flight, usize)> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { bytes: Vec::new(), owner, landed: 0 });
            u32::try_from(self.slots.len() - 1).expect("descriptors run out before")
        });
        let slot = &mut self.slots[index as usize];
        slot.owner = owner;
        let bytes = &mut slot.bytes;
        let length: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if let Err(error) = bytes.try_reserve(length.min(MOST)) {
            self.free.push(index);
            return Err(error.into());
        }
        for buffer in buffers {
            let room = MOST - bytes.len();
            bytes.extend_from_slice(&buffer[..buffer.len().min(room)]);
        }
        Ok((Flight(index), bytes.len()))
    }

    /// The address and length of the bytes, which the kernel reads until the flight lands.
    pub(super) fn memory(&self, flight: Flight) -> (*const u8, u32) {
        let bytes = &self.slots[flight.0 as usize].bytes;
        (bytes.as_ptr(), bytes.len() as u32)
    }

    /// Frees the memory of a completed request, and returns the request's owner.
    pub(super) fn land(&mut self, flight: Flight) -> Owner {
        let slot = &mut self.slots[flight.0 as usize];
        slot.bytes.clear();
        slot.landed = slot.landed.wrapping_add(1);
        self.free.push(flight.0);
        slot.owner
    }

    /// How many bytes the flight carries.
    pub(super) fn length(&self, flight: Flight) -> usize {
        self.slots[flight.0 as usize].bytes.len()
    }

    /// Distinguishes this flight from later ones in the same memory.
    pub(super) fn generation(&self, flight: Flight) -> u32 {
        self.slots[flight.0 as usize].landed
    }

    /// How many flights there are.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { token: Token(7), generation: 1 };

    #[test]
    fn memory_is_used_again_and_never_shared() {
        let mut sends = Sends::default();
        let (first, count) = sends.load(&[IoSlice::new(b"ab"), IoSlice::new(b"c")], OWNER).unwrap();
        assert_eq!((count, sends.length(first)), (3, 3));
        let (second, _) = sends.load(&[IoSlice::new(b"d")], OWNER).unwrap();
        assert_ne!(first, second);
        let before = sends.generation(first);
        assert_eq!(sends.land(first), OWNER);
        let (third, _) = sends.load(&[IoSlice::new(b"e")], OWNER).unwrap();
        assert_eq!(third, first);
        assert_ne!(sends.generation(third), before);
        assert_eq!(sends.count(), 2);
    }

    #[test]
    fn a_long_write_goes_in_pieces() {
        let mut sends = Sends::default();
        let long = vec![1; MOST];
        let (flight, count) =
            sends.load(&[IoSlice::new(b"ab"), IoSlice::new(&long)], OWNER).unwrap();
        assert_eq!((count, sends.length(flight)), (MOST, MOST));
    }
}
