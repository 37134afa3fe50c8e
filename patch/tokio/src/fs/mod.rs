//! Files. A thread that may block makes each call of `std::fs`.

mod directory;
mod file;
mod options;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};

pub use std::fs::{FileTimes, FileType, Metadata, Permissions};

pub use self::directory::{DirBuilder, DirEntry, ReadDir, read_dir};
pub use self::file::File;
pub use self::options::OpenOptions;
use crate::task::spawn_blocking;

/// Calls `call` on a thread that may block.
async fn on_thread<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(call).await.map_err(io::Error::from)?
}

macro_rules! calls {
    ($($name:ident($($path:ident),+ $(; $value:ident: $type:ty)?) -> $result:ty, $about:literal;)+) => {$(
        #[doc = $about]
        ///
        /// # Errors
        ///
        /// As for the function of `std::fs`.
        pub fn $name(
            $($path: impl AsRef<Path>,)+
            $($value: $type,)?
        ) -> impl Future<Output = io::Result<$result>> + Send {
            $(let $path = $path.as_ref().to_owned();)+
            on_thread(move || std::fs::$name($($path,)+ $($value)?))
        }
    )+};
}

calls! {
    canonicalize(path) -> PathBuf, "The absolute form of a path.";
    create_dir(path) -> (), "Makes a folder.";
    create_dir_all(path) -> (), "Makes a folder, and those above it.";
    copy(from, to) -> u64, "Copies a file, and returns its length.";
    hard_link(original, link) -> (), "Makes a further name of a file.";
    metadata(path) -> Metadata, "What the file system knows of a file.";
    symlink_metadata(path) -> Metadata, "What the file system knows of a file or link.";
    read(path) -> Vec<u8>, "The bytes of a file.";
    read_link(path) -> PathBuf, "The target of a link.";
    read_to_string(path) -> String, "The text of a file.";
    remove_dir(path) -> (), "Removes an empty folder.";
    remove_dir_all(path) -> (), "Removes a folder and all in it.";
    remove_file(path) -> (), "Removes a file.";
    rename(from, to) -> (), "Renames a file.";
    set_permissions(path; permissions: Permissions) -> (), "Sets the permissions of a file.";
}

/// Makes a link to a path.
///
/// # Errors
///
/// As for the function of `std`.
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref().to_owned(), link.as_ref().to_owned());
    on_thread(move || std::os::unix::fs::symlink(original, link)).await
}

/// Whether a path leads to a file or folder.
///
/// # Errors
///
/// As for the function of `std`.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref().to_owned();
    on_thread(move || path.try_exists()).await
}

/// Makes a file with these bytes, in place of a file of this name.
///
/// # Errors
///
/// As for the function of `std::fs`.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref().to_owned(), contents.as_ref().to_owned());
    on_thread(move || std::fs::write(path, contents)).await
}
