//! Files and folders, with errors that name them.

use std::path::Path;
use std::{fs, io};

/// Makes a folder, and those above it.
pub(crate) fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| told(folder, &error))
}

/// Removes a folder, if it exists.
pub(crate) fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(told(folder, &error)),
        _ => Ok(()),
    }
}

/// Copies a file to a path, and makes the folder of that path.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make(folder_of(to))?;
    fs::copy(from, to).map(drop).map_err(|error| told(from, &error))
}

/// Writes a file, and makes its folder.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    make(folder_of(path))?;
    fs::write(path, text).map_err(|error| told(path, &error))
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| told(path, &error))
}

/// The error, and the path that it is about.
pub(crate) fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}
