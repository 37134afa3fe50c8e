//! An open file.
//!
//! One call is under way at a time, on a thread that may block. A write is accepted before it is
//! made, and its error is that of the next operation. So a program flushes a file before it drops
//! it.

use std::fmt;
use std::fs::{File as StdFile, FileTimes, Metadata, Permissions};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use real::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use real::sync::Mutex;

use super::{OpenOptions, on_thread};
use crate::task::{JoinHandle, spawn_blocking};

/// The most bytes of one read or write, by default.
const MOST: usize = 2 << 20;

/// An open file.
pub struct File {
    file: Arc<StdFile>,
    inner: Mutex<Inner>,
    most: usize,
}

struct Inner {
    state: State,
    /// The position after the last seek.
    position: u64,
    /// The error of a write that was accepted.
    failed: Option<io::Error>,
}

enum State {
    /// What was read and not yet taken, from a position on.
    Idle(Vec<u8>, usize),
    Busy(JoinHandle<Done>),
}

/// What a thread has done.
enum Done {
    Read(io::Result<Vec<u8>>),
    Written(io::Result<()>),
    Sought(io::Result<u64>),
}

impl Inner {
    /// Waits until no call is under way. Returns the result of a seek.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<u64>>> {
        let State::Busy(call) = &mut self.state else { return Poll::Ready(Ok(None)) };
        let done = ready!(Pin::new(call).poll(context));
        self.state = State::Idle(Vec::new(), 0);
        match done.map_err(io::Error::from)? {
            Done::Read(bytes) => {
                self.state = State::Idle(bytes?, 0);
                Poll::Ready(Ok(None))
            }
            Done::Written(written) => {
                self.failed = written.err();
                Poll::Ready(Ok(None))
            }
            Done::Sought(position) => {
                self.position = position?;
                Poll::Ready(Ok(Some(self.position)))
            }
        }
    }

    fn check(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Forgets what was read ahead, and returns how much it was.
    fn take_ahead(&mut self) -> i64 {
        match mem::replace(&mut self.state, State::Idle(Vec::new(), 0)) {
            State::Idle(bytes, from) => i64::try_from(bytes.len() - from).unwrap_or(0),
            State::Busy(_) => unreachable!("the caller has waited until no call is under way"),
        }
    }

    async fn settle(&mut self) {
        // An error is kept for the next read, write or flush.
        if let Err(error) = std::future::poll_fn(|context| self.poll_idle(context)).await {
            self.failed = Some(error);
        }
    }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::options().read(true).open(path).await
    }

    /// Opens an empty file for writing.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::options().write(true).create(true).truncate(true).open(path).await
    }

    /// Makes a file for reading and writing.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn create_new<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        Self::options().read(true).write(true).create_new(true).open(path).await
    }

    /// The ways to open a file.
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Takes a file of `std`.
    #[must_use]
    pub fn from_std(file: StdFile) -> Self {
        let inner = Inner { state: State::Idle(Vec::new(), 0), position: 0, failed: None };
        Self { file: Arc::new(file), inner: Mutex::new(inner), most: MOST }
    }

    /// The file of `std`, once no call is under way.
    pub async fn into_std(self) -> StdFile {
        let Self { mut file, inner, .. } = self;
        inner.into_inner().settle().await;
        // The thread of the last call may still be dropping its reference.
        loop {
            match Arc::try_unwrap(file) {
                Ok(file) => return file,
                Err(shared) => file = shared,
            }
            crate::task::yield_now().await;
        }
    }

    /// The file of `std`, if no call is under way.
    ///
    /// # Errors
    ///
    /// This file, if a call is under way.
    pub fn try_into_std(mut self) -> Result<StdFile, Self> {
        if matches!(self.inner.get_mut().state, State::Busy(_)) {
            return Err(self);
        }
        let Self { file, inner, most } = self;
        Arc::try_unwrap(file).map_err(|file| Self { file, inner, most })
    }

    /// Calls `call` once no other call is under way.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&StdFile) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let mut inner = self.inner.lock().await;
        inner.settle().await;
        let file = self.file.clone();
        on_thread(move || call(&file)).await
    }

    /// Waits until all is on the disk.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.call(StdFile::sync_all).await
    }

    /// Waits until the bytes are on the disk.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.call(StdFile::sync_data).await
    }

    /// Shortens or lengthens the file.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        self.call(move |file| file.set_len(size)).await
    }

    /// What the file system knows of the file.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        self.call(StdFile::metadata).await
    }

    /// Another handle of the file, with the same position.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn try_clone(&self) -> io::Result<Self> {
        let clone = Self::from_std(self.call(StdFile::try_clone).await?);
        Ok(Self { most: self.most, ..clone })
    }

    /// Sets the permissions of the file.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.call(move |file| file.set_permissions(permissions)).await
    }

    /// Sets the times of the file.
    ///
    /// # Errors
    ///
    /// As for the function of `std::fs`.
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.call(move |file| file.set_times(times)).await
    }

    /// Sets the most bytes of one read or write.
    ///
    /// # Panics
    ///
    /// If `most` is 0.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, most: usize) {
        assert!(most > 0, "`max_buf_size` must be greater than 0");
        self.most = most;
    }

    /// The most bytes of one read or write.
    #[must_use]
    pub fn max_buf_size(&self) -> usize {
        self.most
    }
}

impl AsyncRead for File {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let inner = this.inner.get_mut();
        let mut has_read = false;
        loop {
            if let State::Busy(_) = inner.state {
                ready!(inner.poll_idle(context))?;
                inner.check()?;
                has_read = true;
            }
            let State::Idle(bytes, from) = &mut inner.state else { continue };
            let count = buffer.remaining().min(bytes.len() - *from);
            // After a write or a seek nothing was read, so the read is still to be made.
            if count > 0 || buffer.remaining() == 0 {
                buffer.put_slice(&bytes[*from..*from + count]);
                *from += count;
                return Poll::Ready(Ok(()));
            }
            if has_read && bytes.capacity() > 0 {
                return Poll::Ready(Ok(()));
            }
            let (file, most) = (this.file.clone(), buffer.remaining().min(this.most));
            inner.state = State::Busy(spawn_blocking(move || {
                // The capacity tells an end of the file from no read at all.
                let mut bytes = Vec::with_capacity(most.max(1));
                let read = (&*file).take(most as u64);
                Done::Read(read_once(read, &mut bytes, most).map(|()| bytes))
            }));
        }
    }
}

/// One read of at most `most` bytes.
fn read_once(mut from: impl Read, bytes: &mut Vec<u8>, most: usize) -> io::Result<()> {
    bytes.resize(most, 0);
    loop {
        match from.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                bytes.truncate(read?);
                return Ok(());
            }
        }
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let inner = this.inner.get_mut();
        ready!(inner.poll_idle(context))?;
        inner.check()?;
        let (file, ahead) = (this.file.clone(), inner.take_ahead());
        let mut bytes = Vec::new();
        for buffer in buffers {
            let room = this.most - bytes.len();
            bytes.extend_from_slice(&buffer[..buffer.len().min(room)]);
        }
        let count = bytes.len();
        inner.state = State::Busy(spawn_blocking(move || {
            let write = || {
                if ahead > 0 {
                    (&*file).seek(SeekFrom::Current(-ahead))?;
                }
                (&*file).write_all(&bytes)
            };
            Done::Written(write())
        }));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inner = self.get_mut().inner.get_mut();
        ready!(inner.poll_idle(context))?;
        Poll::Ready(inner.check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        let this = self.get_mut();
        let inner = this.inner.get_mut();
        if let State::Busy(_) = inner.state {
            let problem = "other file operation is pending, call poll_complete before start_seek";
            return Err(io::Error::other(problem));
        }
        let (file, ahead) = (this.file.clone(), inner.take_ahead());
        let to = match to {
            SeekFrom::Current(distance) => SeekFrom::Current(distance - ahead),
            other => other,
        };
        inner.state = State::Busy(spawn_blocking(move || Done::Sought((&*file).seek(to))));
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let inner = self.get_mut().inner.get_mut();
        ready!(inner.poll_idle(context))?;
        Poll::Ready(Ok(inner.position))
    }
}

impl From<StdFile> for File {
    fn from(file: StdFile) -> Self {
        Self::from_std(file)
    }
}

impl From<OwnedFd> for File {
    fn from(descriptor: OwnedFd) -> Self {
        Self::from_std(descriptor.into())
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("tokio::fs::File").field("std", &self.file).finish_non_exhaustive()
    }
}
