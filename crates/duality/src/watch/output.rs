//! Files that a watched server writes. The files are new, belong to the server, and are readable by
//! its user alone.
//!
//! A server may run as root and write into /tmp, where others can plant names. So it follows no
//! symbolic link (`O_NOFOLLOW` of open(2)), and writes to no file of another user. A new file has
//! the mode 0600, since records and dumps name clients. A named pipe is written to without a wait:
//! what its reader does not take is lost.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::failure::{Blame, Failure, Party};

/// A file, or standard error under another descriptor. This thread might hold std's lock while
/// another thread forks. The child would then hold that lock for ever.
pub(super) struct Output {
    file: File,
    /// The name in error messages.
    name: String,
}

impl Output {
    /// Opens `path`, or standard error for `-`.
    ///
    /// # Errors
    ///
    /// The errors of [`create`].
    pub(super) fn open(path: &Path, flag: &str) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::standard_error();
        }
        Ok(Self { file: create(path, flag)?, name: path.display().to_string() })
    }

    /// Opens the file that `flag` names, and appends to it.
    ///
    /// # Errors
    ///
    /// The errors of [`create`].
    pub(super) fn append(path: &Path, flag: &str) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::standard_error();
        }
        let file = open(path, flag, OpenOptions::new().append(true))?;
        Ok(Self { file, name: path.display().to_string() })
    }

    pub(super) fn standard_error() -> Result<Self, Failure> {
        let descriptor = io::stderr().as_fd().try_clone_to_owned();
        let file = descriptor.map(File::from).blame_at(Party::Machine, "standard error")?;
        Ok(Self { file, name: "standard error".into() })
    }

    pub(super) fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.write_bytes(text.as_bytes())
    }

    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).blame_at(Party::Machine, &self.name)
    }
}

/// Opens the file that `flag` names, empty.
///
/// # Errors
///
/// If the file cannot be written, is a symbolic link outside /dev, or belongs to another user. The
/// line names the flag and the file.
pub(super) fn create(path: &Path, flag: &str) -> Result<File, Failure> {
    let file = open(path, flag, OpenOptions::new().write(true))?;
    let empty = || match file.metadata()?.is_file() {
        // Truncate only after the check, and not by O_TRUNC: another user's file must stay
        // unchanged.
        true => file.set_len(0),
        false => Ok(()),
    };
    empty().blame_at(Party::Machine, format_args!("{flag}: {}", path.display()))?;
    Ok(file)
}

fn open(path: &Path, flag: &str, options: &mut OpenOptions) -> Result<File, Failure> {
    let place = format_args!("{flag}: {}", path.display());
    let refusal = |problem: &str| Failure::new(Party::Machine, format!("{place}: {problem}"));
    // The links of /dev, such as stdout, are the system's: no other user can plant a link there.
    let follow = if path.starts_with("/dev") { OFlags::empty() } else { OFlags::NOFOLLOW };
    // To open a pipe for writing would wait for its reader.
    let flags = follow | OFlags::NONBLOCK;
    options.create(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => refusal("nobody reads this pipe: start its reader first"),
        _ if path.is_symlink() => refusal("it is a symbolic link: name the file itself"),
        _ => refusal(&error.to_string()),
    })?;
    let found = file.metadata().blame_at(Party::Machine, place)?;
    if !found.file_type().is_fifo() {
        let waits =
            fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK));
        waits.blame_at(Party::Machine, place)?;
    }
    if found.is_file() && (found.uid() != geteuid().as_raw() || found.nlink() > 1) {
        return Err(refusal("another user or name has it: remove it, or name a new file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_new_file_is_for_its_user_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stats");
        Output::open(&path, "--stats").unwrap().write("one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // The next run begins with an empty file.
        Output::open(&path, "--stats").unwrap().write("2").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
    }

    #[test]
    fn what_is_appended_to_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        Output::append(&path, "--access-log").unwrap().write("one\n").unwrap();
        Output::append(&path, "--access-log").unwrap().write("two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_others_may_have_planted_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (theirs, planted) = (folder.path().join("theirs"), folder.path().join("planted"));
        fs::write(&theirs, "secret").unwrap();
        symlink(&theirs, &planted).unwrap();
        let refused = create(&planted, "--dump").unwrap_err().to_string();
        assert!(refused.starts_with("--dump: ") && refused.contains("symbolic link"), "{refused}");
        fs::remove_file(&planted).unwrap();
        fs::hard_link(&theirs, &planted).unwrap();
        assert!(create(&planted, "--dump").unwrap_err().to_string().contains("another user"));
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "secret");
    }

    /// The start of a server does not wait for the reader of a pipe, and neither does a line.
    #[test]
    fn a_pipe_is_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        let refused = Output::append(&path, "--access-log").map(drop).unwrap_err().to_string();
        assert!(refused.contains("nobody reads this pipe"), "{refused}");
        let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, 0.into()).unwrap();
        let mut output = Output::append(&path, "--access-log").unwrap();
        output.write("one\n").unwrap();
        let mut line = [0; 8];
        assert_eq!(rustix::io::read(&reader, &mut line).unwrap(), 4);
        let lost = (0..1000).find_map(|_| output.write_bytes(&[b'x'; 4096]).err());
        assert!(lost.is_some(), "the pipe is full");
    }

    #[test]
    fn devices_are_written_to() {
        create(Path::new("/dev/null"), "--stats").unwrap();
        create(Path::new("/dev/fd/2"), "--stats").unwrap();
    }
}
