//! Files beneath a root that no path leaves.
//!
//! A disk may delay opening and reading. So on a loop, the helper threads of [`task::offload`] do
//! both. With [`EventLoop::disk_in_place`](crate::event_loop::EventLoop::disk_in_place), the loop
//! itself does.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::{Errno, pread, pwrite};

use crate::world::budget::budgeted;
use crate::{task, time};

/// The longest wait for a descriptor, and the time between two attempts.
const PATIENCE: Duration = Duration::from_secs(10);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A directory with files that can be opened. Files outside of it cannot be opened.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::{block_on, fs};
///
/// # fn main() -> std::io::Result<()> {
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// std::fs::write(directory.join("greeting.txt"), "hello")?;
/// let root = fs::Root::open(directory)?;
/// block_on(async {
///     assert_eq!(root.stat("greeting.txt").await?.length, 5);
///     let outside = root.open_file("../etc/passwd").await.unwrap_err();
///     assert_eq!(outside.kind(), std::io::ErrorKind::PermissionDenied);
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Root {
    directory: Arc<OwnedFd>,
    /// Whether the kernel has `openat2(2)` (Linux 5.6) and lets this process use it.
    resolves_beneath: bool,
}

impl Root {
    /// Opens a directory as a root. The function is not `async`, because it belongs to the set-up
    /// of a server.
    ///
    /// # Errors
    ///
    /// `NotFound`, `NotADirectory`, `PermissionDenied`.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path.as_ref(), flags, Mode::empty())?;
        let resolves_beneath = open_beneath(directory.as_fd(), Path::new("."), flags).is_ok();
        Ok(Self { directory: Arc::new(directory), resolves_beneath })
    }

    /// Opens the file or directory at `path`, which is relative and has `/` as its separator.
    ///
    /// If no descriptor is left, waits for a descriptor for up to ten seconds.
    ///
    /// Symbolic links are followed as long as they stay beneath the root. If the kernel cannot
    /// check that, they are not followed.
    ///
    /// # Errors
    ///
    /// `NotFound`. `PermissionDenied`, also for a path that leaves the root.
    pub async fn open_file(&self, path: &str) -> io::Result<File> {
        let root = self.clone();
        let path = Path::new(OsStr::from_bytes(path.as_bytes())).to_owned();
        with_a_descriptor(move || root.open_now(&path)).await
    }

    /// Describes the file that [`open_file`](Root::open_file) would open.
    ///
    /// # Errors
    ///
    /// The errors of `open_file`.
    pub async fn stat(&self, path: &str) -> io::Result<Metadata> {
        let root = self.clone();
        let path = Path::new(OsStr::from_bytes(path.as_bytes())).to_owned();
        with_a_descriptor(move || root.open_now(&path)?.metadata_now()).await
    }

    fn open_now(&self, path: &Path) -> io::Result<File> {
        // The flags avoid a wait for the other end of a FIFO, and avoid a controlling terminal.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = if self.resolves_beneath {
            open_beneath(self.directory.as_fd(), path, flags)
        } else {
            walk(self.directory.as_fd(), path, flags)
        };
        match opened {
            Ok(descriptor) => Ok(File { descriptor: Arc::new(descriptor) }),
            // The path would leave the root, or it is a link in a place where links are not
            // followed.
            Err(Errno::XDEV | Errno::LOOP) => Err(io::ErrorKind::PermissionDenied.into()),
            // The path has a file in place of a directory.
            Err(Errno::NOTDIR | Errno::NAMETOOLONG) => Err(io::ErrorKind::NotFound.into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Calls `open` where disk work is done, and again while no descriptor is left, because other tasks
/// close their files.
async fn with_a_descriptor<T, O>(open: O) -> io::Result<T>
where
    T: Send + 'static,
    O: Fn() -> io::Result<T> + Clone + Send + 'static,
{
    let mut waited = Duration::ZERO;
    loop {
        match task::on_disk(open.clone()).await {
            Err(error) if is_out_of_descriptors(&error) && waited < PATIENCE => {
                let pause = (waited / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                time::sleep(pause).await;
                waited += pause;
            }
            opened => return opened,
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn open_beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            // The kernel could not be sure because of a rename elsewhere. openat2(2) says to try
            // again.
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Opens component after component, without following any link: for kernels without `openat2`.
fn walk(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let inside = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = openat(root, ".", inside, Mode::empty())?;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let name = match component {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            _ => return Err(Errno::XDEV),
        };
        if components.peek().is_none() {
            return openat(directory, name, flags | OFlags::NOFOLLOW, Mode::empty());
        }
        directory = openat(directory, name, inside, Mode::empty())?;
    }
    openat(directory, ".", flags, Mode::empty())
}

/// An open file.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::{block_on, fs};
///
/// # fn main() -> std::io::Result<()> {
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// std::fs::write(directory.join("greeting.txt"), "hello, world")?;
/// let root = fs::Root::open(directory)?;
/// block_on(async {
///     let file = root.open_file("greeting.txt").await?;
///     assert_eq!(file.metadata().await?.kind, fs::Kind::File);
///     assert_eq!(file.read_at(7, 100).await?, b"world");
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct File {
    descriptor: Arc<OwnedFd>,
}

impl File {
    /// The file's properties.
    ///
    /// # Errors
    ///
    /// The errors of `fstat(2)`.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        // In place in every world: opening the file has read the data of the answer.
        budgeted().await;
        self.metadata_now()
    }

    /// Reads up to `length` bytes from `offset` on. Reads fewer only at the end of the file.
    ///
    /// # Errors
    ///
    /// The errors of `pread(2)`; `OutOfMemory`.
    #[track_caller]
    pub fn read_at(
        &self,
        offset: u64,
        length: usize,
    ) -> impl Future<Output = io::Result<Vec<u8>>> + Send + use<> {
        let file = self.clone();
        task::on_disk(move || file.read_now(offset, length))
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    ///
    /// The errors of `pwrite(2)`, for example if the file was opened for reading, or the disk is
    /// full.
    #[track_caller]
    pub fn write_at<B: AsRef<[u8]> + Send + 'static>(
        &self,
        offset: u64,
        bytes: B,
    ) -> impl Future<Output = io::Result<()>> + Send + use<B> {
        let file = self.clone();
        task::on_disk(move || file.write_now(offset, bytes.as_ref()))
    }

    fn metadata_now(&self) -> io::Result<Metadata> {
        let status = fstat(&self.descriptor)?;
        let kind = match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            _ => Kind::Other,
        };
        let since_epoch = Duration::from_secs(u64::try_from(status.st_mtime).unwrap_or(0));
        Ok(Metadata {
            kind,
            length: u64::try_from(status.st_size).unwrap_or(0),
            modified: SystemTime::UNIX_EPOCH
                + since_epoch
                + Duration::from_nanos(status.st_mtime_nsec as u64),
            inode: status.st_ino,
            device: status.st_dev,
        })
    }

    fn read_now(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length)?;
        bytes.resize(length, 0);
        let mut filled = 0;
        while filled < length {
            match pread(&self.descriptor, &mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl File {
    /// Opens a file for reading and writing. The function is not `async`, because it belongs to the
    /// set-up of a server.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)`.
    pub fn open_to_write(path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path.as_ref(), flags, Mode::empty())?;
        Ok(Self { descriptor: Arc::new(descriptor) })
    }

    /// A file without a name in the system's directory for temporary files, with this content. The
    /// file vanishes with its last descriptor. The function is not `async`, because it belongs to
    /// the set-up of a server.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)` and `pwrite(2)`.
    pub fn temporary(content: &[u8]) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
        let descriptor = rustix::fs::open(env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)?;
        let file = Self { descriptor: Arc::new(descriptor) };
        file.write_now(0, content)?;
        Ok(file)
    }

    /// The current length of the file. The function is not `async`, because it belongs to the
    /// set-up of a server.
    ///
    /// # Errors
    ///
    /// The errors of `fstat(2)`.
    pub fn length(&self) -> io::Result<u64> {
        Ok(self.metadata_now()?.length)
    }

    fn write_now(&self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match pwrite(&self.descriptor, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = &bytes[count..];
                    offset += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The kind of file that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A device, a FIFO, a socket.
    Other,
}

/// The properties of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The kind of the file.
    pub kind: Kind,
    /// The length in bytes.
    pub length: u64,
    /// The time at which the content last changed.
    pub modified: SystemTime,
    /// The file's number on its device.
    pub inode: u64,
    /// The device of the file.
    pub device: u64,
}
