//! The lines of results.jsonl that the page's figures come from. So each figure can be traced to
//! what was written down when it was measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// The most bytes of lines that a page takes along. Of more it names the places alone.
const MOST: usize = 4 << 20;

/// Where the cells of an experiment are written down.
#[derive(Debug, Default)]
pub struct RawLines {
    /// By subject and concurrency; within, by repeat.
    lines: BTreeMap<(String, usize), BTreeMap<usize, RawLine>>,
    bytes: usize,
}

/// A line of a results file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct RawLine {
    /// The file's name, with that of its directory where the experiment has several.
    file: String,
    /// From 1.
    number: usize,
    /// The line as it is; empty where there are too many.
    text: String,
}

/// The part of a line that names its cell.
#[derive(Deserialize)]
struct Key {
    architecture: String,
    concurrency: usize,
    repeat: usize,
}

impl RawLines {
    /// The lines of these files. Of a cell that was measured more than once, only the last line
    /// counts.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
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
            // The first line, and one that a crash cut short, are of no cell.
            let Ok(key) = serde_json::from_str::<Key>(line) else { continue };
            self.bytes += line.len();
            let raw = RawLine { file: file.to_owned(), number: index + 1, text: line.to_owned() };
            let cell = self.lines.entry((key.architecture, key.concurrency)).or_default();
            cell.insert(key.repeat, raw);
        }
    }

    /// The lines of a subject at a concurrency, by repeat.
    pub(super) fn of(&self, subject: &str, concurrency: usize) -> Vec<&RawLine> {
        let cell = self.lines.get(&(subject.to_owned(), concurrency));
        cell.into_iter().flat_map(BTreeMap::values).collect()
    }

    /// The line of one of its cells.
    pub(super) fn line(
        &self,
        subject: &str,
        concurrency: usize,
        repeat: usize,
    ) -> Option<&RawLine> {
        self.lines.get(&(subject.to_owned(), concurrency))?.get(&repeat)
    }
}

impl RawLine {
    /// The number of the line, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The file that it is in.
    pub(super) fn file(&self) -> &str {
        &self.file
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
        let found = raw.of("epoll", 10);
        assert_eq!(found.iter().map(|line| line.number()).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(found[1].text, text[3]);
        assert!(raw.of("epoll", 11).is_empty() && raw.of("threads", 10).is_empty());
    }
}
