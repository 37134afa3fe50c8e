//! Files and folders. Their errors name the path.

use std::path::Path;
use std::{fs, io};

use crate::failure::{At as _, Result};

/// Makes a folder, and those above it.
pub(crate) fn make(folder: &Path) -> Result {
    fs::create_dir_all(folder).at(folder.display())
}

/// Removes a folder, if it exists.
pub(crate) fn remove(folder: &Path) -> Result {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.at(folder.display()),
    }
}

/// Copies a file to a path, and makes the folder of that path.
pub(crate) fn copy(from: &Path, to: &Path) -> Result {
    make(folder_of(to))?;
    fs::copy(from, to).map(drop).at(from.display())
}

/// Writes a file, and makes its folder.
pub(crate) fn write(path: &Path, text: &str) -> Result {
    make(folder_of(path))?;
    fs::write(path, text).at(path.display())
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).at(path.display())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}
