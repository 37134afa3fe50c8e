//! Folders.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, DirEntryExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::on_thread;
use crate::task::{JoinHandle, spawn_blocking};

/// The entries that are read at a time.
const BATCH: usize = 32;

/// The settings of a new folder.
#[derive(Debug, Default)]
pub struct DirBuilder {
    is_recursive: bool,
    mode: Option<u32>,
}

impl DirBuilder {
    /// The default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether folders above are made too.
    pub fn recursive(&mut self, is: bool) -> &mut Self {
        self.is_recursive = is;
        self
    }

    /// Sets the permissions.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Makes a folder.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(self.is_recursive);
        if let Some(mode) = self.mode {
            builder.mode(mode);
        }
        let path = path.as_ref().to_owned();
        on_thread(move || builder.create(path)).await
    }
}

/// The entries of a folder.
#[derive(Debug)]
pub struct ReadDir {
    batch: VecDeque<io::Result<DirEntry>>,
    /// `None` at the end, and while a batch is read.
    rest: Option<std::fs::ReadDir>,
    reading: Option<JoinHandle<Batch>>,
}

type Batch = (VecDeque<io::Result<DirEntry>>, Option<std::fs::ReadDir>);

/// The entries of a folder.
///
/// # Errors
///
/// As for the function of `std::fs`.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_owned();
    let (batch, rest) = on_thread(|| Ok(read_batch(std::fs::read_dir(path)?))).await?;
    Ok(ReadDir { batch, rest, reading: None })
}

fn read_batch(mut entries: std::fs::ReadDir) -> Batch {
    let batch = entries.by_ref().take(BATCH).map(|entry| Ok(DirEntry(Arc::new(entry?))));
    let batch = VecDeque::from_iter(batch);
    let rest = (batch.len() == BATCH).then_some(entries);
    (batch, rest)
}

impl ReadDir {
    /// The next entry. `None` at the end.
    ///
    /// # Errors
    ///
    /// The errors of `readdir(3)`.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        std::future::poll_fn(|context| self.poll_next_entry(context)).await
    }

    /// Like [`next_entry`](Self::next_entry), for a future of one's own.
    pub fn poll_next_entry(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<DirEntry>>> {
        loop {
            if let Some(entry) = self.batch.pop_front() {
                return Poll::Ready(entry.map(Some));
            }
            if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                (self.batch, self.rest) = read.map_err(io::Error::from)?;
                continue;
            }
            match self.rest.take() {
                Some(rest) => self.reading = Some(spawn_blocking(|| read_batch(rest))),
                None => return Poll::Ready(Ok(None)),
            }
        }
    }
}

/// An entry of a folder.
#[derive(Debug)]
pub struct DirEntry(Arc<std::fs::DirEntry>);

impl DirEntry {
    /// The path of the entry, as far as that of the folder was given.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// The name of the entry.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    /// The number of the entry's inode.
    #[must_use]
    pub fn ino(&self) -> u64 {
        self.0.ino()
    }

    /// What the file system knows of the entry.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let entry = self.0.clone();
        on_thread(move || entry.metadata()).await
    }

    /// The kind of the entry.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn file_type(&self) -> io::Result<FileType> {
        let entry = self.0.clone();
        on_thread(move || entry.file_type()).await
    }
}
