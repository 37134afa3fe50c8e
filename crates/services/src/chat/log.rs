//! The newest lines of a chat, as one text in the form that members get. New bytes replace the
//! oldest.
//!
//! ```text
//!                   cursor of a slow member         cursor of a quick one
//!                           ▼                                 ▼
//!   . . . . . │ 3> hello ⏎ 17> good morning ⏎ 3> how are you ⏎ │
//!   gone      ▲ at most `capacity` bytes                       ▲ end
//! ```
//!
//! Positions count every byte since the beginning. So a cursor alone shows whether its member has
//! been overtaken. A cursor is always at the beginning of a line.
//!
//! The log keeps only the text, because a line's beginning names its author. So a member can copy a
//! long stretch at once. It removes its own lines from its copy later, without holding up other
//! members.

use std::collections::VecDeque;

use memchr::{memchr, memmem, memrchr};

/// Bytes that a member copies at a time.
pub(crate) const STRETCH: usize = 16 << 10;

/// The latest lines.
pub(crate) struct Log {
    bytes: VecDeque<u8>,
    capacity: usize,
    end: u64,
}

/// The log has dropped bytes that the member has not copied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overtaken;

impl Log {
    /// An empty log of at most `capacity` bytes. No line may be longer than that. Memory is touched
    /// only when lines come.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { bytes: VecDeque::with_capacity(capacity), capacity, end: 0 }
    }

    /// The position after the last line.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Adds a line, and drops the oldest bytes if there is no room. The text contains no LF.
    pub(crate) fn add(&mut self, prefix: &[u8], text: &[u8]) {
        self.make_room(prefix.len() + text.len() + 1);
        self.bytes.extend(prefix);
        self.bytes.extend(text);
        self.bytes.push_back(b'\n');
    }

    /// Adds whole lines as they are. Together they are at most `capacity` bytes long.
    pub(crate) fn add_lines(&mut self, lines: &[u8]) {
        self.make_room(lines.len());
        self.bytes.extend(lines);
    }

    /// Drops the oldest bytes, so that `length` bytes can be added.
    fn make_room(&mut self, length: usize) {
        let excess = (self.bytes.len() + length).saturating_sub(self.capacity);
        self.bytes.drain(..excess);
        self.end += length as u64;
    }

    /// Copies the lines after `cursor`, at most [`STRETCH`] bytes, to the empty `lines`. Returns
    /// the cursor after them. The stretch must be longer than any line.
    pub(crate) fn copy(&self, cursor: u64, lines: &mut Vec<u8>) -> Result<u64, Overtaken> {
        let first = self.end - self.bytes.len() as u64;
        // A usize can count all bytes in memory.
        let start = cursor.checked_sub(first).ok_or(Overtaken)? as usize;
        let end = self.bytes.len().min(start + STRETCH);
        let (front, back) = self.bytes.as_slices();
        let seam = front.len();
        lines.extend_from_slice(&front[start.min(seam)..end.min(seam)]);
        lines.extend_from_slice(&back[start.saturating_sub(seam)..end.saturating_sub(seam)]);
        lines.truncate(memrchr(b'\n', lines).map_or(0, |feed| feed + 1));
        Ok(cursor + lines.len() as u64)
    }
}

/// How the lines of one member begin: `17> `.
pub(crate) struct Prefix {
    /// Finds the prefix, together with the LF of the line before.
    finder: memmem::Finder<'static>,
}

impl Prefix {
    pub(crate) fn new(number: u64) -> Self {
        Self { finder: memmem::Finder::new(&format!("\n{number}> ")).into_owned() }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.finder.needle()[1..]
    }

    /// Removes the lines with this prefix from `lines`, which holds whole lines.
    pub(crate) fn take_out(&self, lines: &mut Vec<u8>) {
        let (mut kept, mut seen) = (0, 0);
        while let Some(own) = self.find(&lines[seen..]) {
            let own = seen + own;
            lines.copy_within(seen..own, kept);
            kept += own - seen;
            seen = memchr(b'\n', &lines[own..]).map_or(lines.len(), |feed| own + feed + 1);
        }
        lines.copy_within(seen.., kept);
        lines.truncate(kept + lines.len() - seen);
    }

    /// The place of the first line with this prefix.
    fn find(&self, lines: &[u8]) -> Option<usize> {
        if lines.starts_with(self.as_bytes()) {
            return Some(0);
        }
        self.finder.find(lines).map(|feed| feed + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 300;

    /// A step: a line is added, or a reader copies a stretch.
    #[derive(Clone, Debug)]
    enum Step {
        Say { author: usize, text: Vec<u8> },
        Read { reader: usize },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // These texts can look like the beginning of a member's line.
        let byte = prop::sample::select(b"0123> \r\x00\xff".to_vec());
        let text = prop::collection::vec(byte, 0..60);
        let step = prop_oneof![
            (0..4usize, text).prop_map(|(author, text)| Step::Say { author, text }),
            (0..4usize).prop_map(|reader| Step::Read { reader }),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// A reader that keeps up gets every line of the others once and in order. A reader that
        /// does not keep up gets the first lines, and then learns that it was overtaken.
        #[test]
        fn readers_get_the_lines_of_the_others(steps in steps()) {
            let prefixes: Vec<_> = [1, 2, 12, 21].map(Prefix::new).into();
            let mut log = Log::new(CAPACITY);
            let mut spoken: Vec<(usize, Vec<u8>)> = Vec::new();
            let mut total = 0;
            let mut readers = vec![(Some(0), Vec::new()); prefixes.len()];
            let mut lines = Vec::new();
            for step in steps {
                match step {
                    Step::Say { author, text } => {
                        log.add(prefixes[author].as_bytes(), &text);
                        let line = [prefixes[author].as_bytes(), &text, b"\n"].concat();
                        total += line.len() as u64;
                        spoken.push((author, line));
                        prop_assert_eq!(log.end(), total);
                    }
                    Step::Read { reader } => {
                        let (cursor, got) = &mut readers[reader];
                        let Some(position) = *cursor else { continue };
                        lines.clear();
                        let copied = log.copy(position, &mut lines).ok();
                        let kept = total - position <= CAPACITY as u64;
                        prop_assert_eq!(copied, kept.then_some(total));
                        prefixes[reader].take_out(&mut lines);
                        got.extend_from_slice(&lines);
                        *cursor = copied;
                    }
                }
            }
            for (reader, (cursor, got)) in readers.into_iter().enumerate() {
                let mut position = 0;
                let mut due = Vec::new();
                for (author, line) in &spoken {
                    position += line.len() as u64;
                    let reached = cursor.is_none_or(|cursor| position <= cursor);
                    if *author != reader && reached {
                        due.extend_from_slice(line);
                    }
                }
                match cursor {
                    Some(_) => prop_assert_eq!(got, due),
                    None => prop_assert!(due.starts_with(&got)),
                }
            }
        }
    }

    #[test]
    fn a_long_way_is_taken_in_stretches_of_whole_lines() {
        let mut log = Log::new(10 * STRETCH);
        let (one, other) = (Prefix::new(1), Prefix::new(2));
        let mut due = Vec::new();
        while due.len() < 9 * STRETCH {
            let text = vec![b'x'; 1 + due.len() % 1000];
            log.add(one.as_bytes(), &text);
            due.extend([one.as_bytes(), &text, b"\n"].concat());
        }
        let (mut cursor, mut got, mut lines) = (0, Vec::new(), Vec::new());
        while cursor < log.end() {
            lines.clear();
            cursor = log.copy(cursor, &mut lines).unwrap();
            assert!(!lines.is_empty() && lines.len() <= STRETCH && lines.ends_with(b"\n"));
            other.take_out(&mut lines);
            got.extend_from_slice(&lines);
        }
        assert!(got == due);
        assert!(lines.capacity() <= 2 * STRETCH);
        lines.clear();
        assert_eq!(log.copy(cursor, &mut lines), Ok(cursor));
        assert!(lines.is_empty());
    }
}
