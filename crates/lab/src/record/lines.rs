//! A file of lines of JSON. Each line is appended as soon as it is known, so a crash loses no more
//! than the last line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

/// An open file.
#[derive(Debug)]
pub(crate) struct Lines(File);

impl Lines {
    /// Begins a file. An empty file, which a crash may leave, counts as none.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let is_empty = path.metadata().is_ok_and(|about| about.len() == 0);
        OpenOptions::new().append(true).create_new(!is_empty).open(path).map(Self)
    }

    /// Goes on with a file that has this text. An incomplete last line is removed.
    pub(crate) fn resume(path: &Path, text: &str) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(path)?;
        file.set_len(whole(text).len() as u64)?;
        Ok(Self(file))
    }

    /// Appends a line.
    pub(crate) fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.0.write_all((serde_json::to_string(line)? + "\n").as_bytes())
    }
}

/// The lines that are complete.
pub(crate) fn whole(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |end| end + 1)]
}
