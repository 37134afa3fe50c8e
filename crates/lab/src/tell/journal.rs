//! The records of a trial: `trial.jsonl`, a line for each event, and `report.html`, a page that
//! follows the trial.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::answers;
use super::render::html::html;
use crate::page::write_whole;
use crate::trial::event::{Event, Told};

/// The name of the records in their directory.
pub const FILE: &str = "trial.jsonl";
/// The name of the page beside them.
pub const PAGE: &str = "report.html";

/// The records of a trial under way.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    file: File,
    told: Vec<Told>,
}

impl Journal {
    /// Begins records in a directory, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// One line: the directory has records, or cannot be written.
    pub fn create(directory: &Path) -> Result<Self, String> {
        let phrase = |error: io::Error| format!("{}: {error}", directory.display());
        fs::create_dir_all(directory).map_err(phrase)?;
        let path = directory.join(FILE);
        let file = File::options().append(true).create_new(true).open(&path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{} holds a trial: choose another --out", directory.display())
            }
            _ => format!("{}: {error}", path.display()),
        })?;
        Ok(Self { directory: directory.to_owned(), file, told: Vec::new() })
    }

    /// Adds an event, and writes the page anew.
    ///
    /// # Errors
    ///
    /// Fails if, for example, the disk is full.
    pub fn add(&mut self, told: &Told) -> io::Result<()> {
        let line = serde_json::to_string(told)?;
        self.told.push(told.clone());
        self.file.write_all(format!("{line}\n").as_bytes())?;
        match told.event {
            Event::Said { .. } => Ok(()),
            _ => {
                let page = html(&answers::trial::sheet(&self.told));
                write_whole(&self.directory.join(PAGE), &page)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_trial() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(&folder.path().join("new")).unwrap();
        let event = Event::Drained { candidate: "epoll".into() };
        journal.add(&Told { at_s: 1.5, event }).unwrap();
        let kept = fs::read_to_string(folder.path().join("new").join(FILE)).unwrap();
        assert_eq!(kept, "{\"at_s\":1.5,\"event\":\"drained\",\"candidate\":\"epoll\"}\n");
        assert!(folder.path().join("new").join(PAGE).exists());
        let again = Journal::create(&folder.path().join("new")).unwrap_err();
        assert!(again.ends_with("holds a trial: choose another --out"), "{again}");
    }
}
