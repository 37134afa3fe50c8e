//! The lines of results.jsonl that the page's figures come from. So each figure can be traced to
//! the records of its measurement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;

use crate::tell::sheet::{self, RawLine};

/// The most bytes of lines that a page contains. If there are more, the page names only their
/// places.
const MOST: usize = 4 << 20;

/// The places of the cells of an experiment in results files.
#[derive(Debug, Default)]
pub struct RawLines {
    /// By subject and concurrency, then by repeat.
    lines: BTreeMap<(String, usize), BTreeMap<usize, RawLine>>,
    bytes: usize,
}

/// The part of a line that names its cell.
#[derive(Deserialize)]
struct Key {
    architecture: String,
    concurrency: usize,
    repeat: usize,
}

impl RawLines {
    /// The lines of these files. If a cell was measured more than once, only its last line counts.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read.
    pub fn read(paths: &[PathBuf]) -> io::Result<Self> {
        let mut all = Self::default();
        for path in paths {
            let name = if paths.len() == 1 { path.file_name().map(Path::new) } else { None };
            let name = name.unwrap_or(path).display().to_string();
            all.add(&name, &fs::read_to_string(path)?);
        }
        if all.bytes > MOST {
            let lines = all.lines.values_mut().flat_map(BTreeMap::values_mut);
            lines.for_each(|line| line.text.clear());
        }
        Ok(all)
    }

    fn add(&mut self, file: &str, text: &str) {
        for (index, line) in text.lines().enumerate() {
            // The first line, and an incomplete last line, are not cells.
            let Ok(key) = serde_json::from_str::<Key>(line) else { continue };
            self.bytes += line.len();
            let raw = RawLine { file: file.to_owned(), number: index + 1, text: line.to_owned() };
            let cell = self.lines.entry((key.architecture, key.concurrency)).or_default();
            cell.insert(key.repeat, raw);
        }
    }

    /// The lines of a subject at a concurrency. `None` if there are none.
    pub(super) fn of(&self, subject: &str, concurrency: usize) -> Option<sheet::RawLines> {
        let lines = self.lines.get(&(subject.to_owned(), concurrency))?;
        let lines = lines.values().cloned().collect();
        Some(sheet::RawLines { name: subject.to_owned(), concurrency, lines })
    }

    /// The line of one of the row's cells.
    pub(super) fn line(
        &self,
        subject: &str,
        concurrency: usize,
        repeat: usize,
    ) -> Option<&RawLine> {
        self.lines.get(&(subject.to_owned(), concurrency))?.get(&repeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_cell_counts() {
        let line = |repeat: usize, outcome: &str| {
            format!(
                r#"{{"kind":"cell","architecture":"epoll","concurrency":10,"repeat":{repeat},"outcome":"{outcome}"}}"#
            )
        };
        let text = [
            r#"{"kind":"experiment"}"#.to_owned(),
            line(1, "failed"),
            line(0, "failed"),
            line(1, "measured"),
            r#"{"kind":"cell","arch"#.to_owned(),
        ];
        let mut raw = RawLines::default();
        raw.add("results.jsonl", &text.join("\n"));
        let found = raw.of("epoll", 10).unwrap().lines;
        assert_eq!(found.iter().map(|line| line.number).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(found[1].text, text[3]);
        assert!(raw.of("epoll", 11).is_none() && raw.of("threads", 10).is_none());
    }
}
