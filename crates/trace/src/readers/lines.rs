//! Lines of a log, each of a bounded length.

use std::io::{self, BufRead, Read};

/// The longest line, in bytes. Servers refuse longer requests.
const LONGEST: usize = 1 << 16;

/// The lines of a log.
pub(super) struct Lines<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, line: Vec::new(), number: 0 }
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end; `None` at the end of the log. A line that is too long gives
    /// its beginning.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let most = LONGEST as u64;
        if (&mut self.from).take(most).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.len() == LONGEST && self.line.last() != Some(&b'\n') {
            self.skip()?;
        }
        Ok(Some(self.line.trim_ascii_end()))
    }

    /// Skips the rest of a line.
    fn skip(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.from.fill_buf()?;
            let (count, is_end) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.from.consume(count);
            if is_end {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_and_counted_as_one() {
        let text = format!("one\r\n{}\n\nlast", "x".repeat(3 * LONGEST));
        let mut lines = Lines::new(text.as_bytes());
        let mut lengths = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            lengths.push(line.len());
        }
        assert_eq!((lengths, lines.number()), (vec![3, LONGEST, 0, 4], 4));
    }
}
