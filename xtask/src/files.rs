//! Files and folders, and errors that name their place.

use std::fmt::Display;
use std::path::Path;
use std::{fs, io};

/// An error with its place: a file, or a program that ran.
pub(crate) trait At<T> {
    /// The value, or the place and the error in one line.
    fn at(self, place: impl Display) -> Result<T, String>;
}

impl<T, E: Display> At<T> for Result<T, E> {
    fn at(self, place: impl Display) -> Result<T, String> {
        self.map_err(|error| format!("{place}: {error}"))
    }
}

/// Makes a folder, and those above it.
pub(crate) fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).at(folder.display())
}

/// Removes a folder, if it exists.
pub(crate) fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.at(folder.display()),
    }
}

/// Copies a file to a path, and makes the folder of that path.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make(folder_of(to))?;
    fs::copy(from, to).map(drop).at(from.display())
}

/// Writes a file, and makes its folder.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    make(folder_of(path))?;
    fs::write(path, text).at(path.display())
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).at(path.display())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}
