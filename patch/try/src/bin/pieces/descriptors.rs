//! Pieces about named pipes, and about descriptors of other libraries.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::common::{Folder, Found, MOMENT};

/// A reader waits for its first writer, and finds the end of input after its last one.
pub(crate) async fn named_pipes() -> Found {
    let folder = Folder::new("named-pipe")?;
    let path = folder.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status()?.success());
    let options = pipe::OpenOptions::new();
    assert!(options.open_sender(&path).is_err());
    let mut reader = options.open_receiver(&path)?;
    let mut text = String::new();
    assert!(timeout(MOMENT, reader.read_to_string(&mut text)).await.is_err());
    assert_eq!(reader.try_read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let mut writer = options.open_sender(&path)?;
    writer.ready(Interest::WRITABLE).await?;
    writer.write_all(b"by name").await?;
    drop(writer);
    reader.read_to_string(&mut text).await?;
    std::fs::write(folder.0.join("file"), "")?;
    let refused = options.open_receiver(folder.0.join("file")).is_err();
    Ok(format!("{text} {refused}"))
}

/// An object that only says the number of its descriptor.
struct Other(UnixStream);

impl AsRawFd for Other {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// An object without a descriptor.
struct Nothing;

impl AsRawFd for Nothing {
    fn as_raw_fd(&self) -> RawFd {
        -1
    }
}

pub(crate) async fn descriptors_of_others() -> Found {
    assert!(AsyncFd::try_new(Nothing).is_err_and(|error| matches!(error.into_parts().0, Nothing)));
    let (one, mut other) = UnixStream::pair()?;
    one.set_nonblocking(true)?;
    let mut watched = AsyncFd::with_interest(Other(one), Interest::READABLE)?;
    assert!(timeout(MOMENT, watched.readable()).await.is_err());
    let sending = tokio::task::spawn_blocking(move || other.write_all(b"abc").map(|()| other));
    let mut buffer = [0; 8];
    let count = watched.async_io(Interest::READABLE, |watched| (&watched.0).read(&mut buffer));
    assert_eq!(count.await?, 3);
    let other = sending.await??;
    assert!(watched.try_io(Interest::READABLE, |watched| (&watched.0).read(&mut buffer)).is_err());
    drop(other);
    let mut ready = watched.readable_mut().await?;
    assert!(ready.ready().is_read_closed());
    let end = ready.try_io(|watched| watched.get_mut().0.read(&mut [0; 8]));
    let end = end.map_err(|_| "the end of input blocks")??;
    Ok(format!("{} {end}", String::from_utf8_lossy(&buffer[..3])))
}
