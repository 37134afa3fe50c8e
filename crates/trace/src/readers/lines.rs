//! Logs that have a line for each request. Lines have a bounded length.

use std::io::{self, BufRead, Read};

use super::{Error, Input, Rejected, check_room, source};
use crate::gather::{Gathering, Rules};
use crate::trace::Trace;

/// The longest line, in bytes. Servers refuse longer requests.
const LONGEST: usize = 1 << 16;

/// A format with a line for each request.
pub(super) trait Format {
    /// Gives the request of a line to the gathering, or says why there is none.
    fn take(&mut self, line: &[u8], gathering: &mut Gathering) -> Result<(), &'static str>;

    /// The name of the source in the trace, once all lines are read.
    fn name(&self) -> &'static str;
}

/// Reads logs of one format into one trace.
pub(super) struct Reader {
    gathering: Gathering,
    format: Box<dyn Format>,
}

impl Reader {
    /// Stamps are coarse if they are of whole seconds.
    pub(super) fn new(rules: &Rules, format: Box<dyn Format>, is_coarse: bool) -> Self {
        Self { gathering: Gathering::new(rules.clone(), is_coarse), format }
    }

    /// Reads a file. Counts each line that is no request.
    pub(super) fn read(
        &mut self,
        input: Input,
        file: &str,
        rejected: &mut Rejected,
    ) -> Result<(), Error> {
        let mut lines = Lines::new(input);
        loop {
            let number = lines.number() + 1;
            let taken = match lines.next() {
                Err(error) => {
                    let what =
                        format!("line {number}: {error}; the lines before it can be read alone");
                    return Err(Error::failed(file, what));
                }
                Ok(None) => return Ok(()),
                Ok(Some([])) => continue,
                Ok(Some(line)) => {
                    check_room(&self.gathering, file)?;
                    self.format.take(line, &mut self.gathering)
                }
            };
            if let Err(why) = taken {
                rejected.add(file, format_args!("line {number}"), why);
            }
        }
    }

    pub(super) fn finish(self) -> Option<Trace> {
        self.gathering.finish(source(self.format.name()))
    }
}

/// The lines of a log.
struct Lines<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    fn new(from: R) -> Self {
        Self { from, line: Vec::new(), number: 0 }
    }

    /// The number of the line that was read last, from 1.
    fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end; `None` at the end of the log. A line that is too long gives
    /// its beginning.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
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
