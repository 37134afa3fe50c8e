//! How a file is opened.

use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{File, on_thread};

/// How a file is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions(std::fs::OpenOptions);

macro_rules! options {
    ($($name:ident, $about:literal;)+) => {
        impl OpenOptions {$(
            #[doc = $about]
            pub fn $name(&mut self, is: bool) -> &mut Self {
                self.0.$name(is);
                self
            }
        )+}
    };
}

options! {
    read, "Sets whether the file can be read.";
    write, "Sets whether the file can be written.";
    append, "Sets whether each write goes to the end.";
    truncate, "Sets whether the file is emptied.";
    create, "Sets whether the file is made, if there is none.";
    create_new, "Sets whether the file is made, and there may be none.";
}

impl OpenOptions {
    /// None of the options.
    #[must_use]
    pub fn new() -> Self {
        Self(std::fs::OpenOptions::new())
    }

    /// Sets the permissions of a new file.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.0.mode(mode);
        self
    }

    /// Sets further flags of `open(2)`.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.0.custom_flags(flags);
        self
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let (options, path) = (self.0.clone(), path.as_ref().to_owned());
        on_thread(move || options.open(path)).await.map(File::from_std)
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> Self {
        Self(options)
    }
}
