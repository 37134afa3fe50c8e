//! The bytes that a client has sent and nobody has used yet: one buffer for each connection.

/// A buffer that is filled at its end and used from its beginning.
///
/// It starts small, because ten thousand idle connections have ten thousand of them, and grows to
/// its limit only for a request that needs it.
#[derive(Debug)]
pub struct Input {
    bytes: Vec<u8>,
    /// The unused bytes are those from `start` to `end`.
    start: usize,
    end: usize,
    limit: usize,
}

/// Enough for most requests; nginx starts with as much.
const INITIAL: usize = 1 << 10;

impl Input {
    /// An empty buffer that holds at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Input { bytes: vec![0; INITIAL.min(limit)], start: 0, end: 0, limit }
    }

    /// The bytes that have come and have not been used.
    pub fn unused(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether as many bytes wait to be used as the buffer may hold.
    pub fn is_full(&self) -> bool {
        self.end - self.start >= self.limit
    }

    /// Room for the next bytes; empty only if the buffer [`is_full`](Self::is_full).
    pub fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.bytes.len() {
            self.bytes.resize(self.limit.min(self.end * 2), 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Notes that the first `length` bytes of the room have been filled.
    pub fn filled(&mut self, length: usize) {
        self.end = self.bytes.len().min(self.end + length);
    }

    /// Notes that the first `length` bytes have been used.
    pub fn consume(&mut self, length: usize) {
        self.start = self.end.min(self.start + length);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(
            steps in prop::collection::vec((0..900usize, 0..900usize), 0..40),
        ) {
            let mut input = Input::new(3000);
            let mut expected = std::collections::VecDeque::new();
            let mut next = 0u8;
            for (fill, consume) in steps {
                let room = input.room();
                let length = fill.min(room.len());
                for byte in &mut room[..length] {
                    *byte = next;
                    expected.push_back(next);
                    next = next.wrapping_add(1);
                }
                prop_assert!(length > 0 || fill == 0 || input.is_full());
                input.filled(length);
                prop_assert_eq!(input.unused(), expected.make_contiguous());
                prop_assert!(input.unused().len() <= 3000);

                let length = consume.min(expected.len());
                input.consume(length);
                expected.drain(..length);
                prop_assert_eq!(input.is_empty(), expected.is_empty());
            }
        }
    }
}
