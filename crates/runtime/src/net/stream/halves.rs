//! The two directions of a connection, for two tasks.

use std::io::{self, IoSlice};
use std::net::Shutdown;

use duality_poller::Direction;

use super::TcpStream;

/// The reading half of [`TcpStream::into_split`].
#[derive(Debug)]
pub struct ReadHalf {
    stream: TcpStream,
}

/// The writing half of [`TcpStream::into_split`]. Its drop ends writing: the peer reads the end of
/// input.
#[derive(Debug)]
pub struct WriteHalf {
    /// `None` when the halves are one again.
    stream: Option<TcpStream>,
}

impl TcpStream {
    /// Splits the connection, so that one task can read while another one writes. The connection
    /// takes one more descriptor. Each half keeps its own time-out.
    ///
    /// ```
    /// # use duality_runtime as duality;
    /// use duality::net::{ListenOptions, TcpListener, TcpStream};
    /// use duality::{block_on, task};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// block_on(async {
    ///     let any_port = ([127, 0, 0, 1], 0).into();
    ///     let mut listener = TcpListener::bind(any_port, &ListenOptions::default())?;
    ///     let client = TcpStream::connect(listener.local_addr()?).await?;
    ///     let (mut server, _) = listener.accept().await?;
    ///
    ///     let (mut reads, mut writes) = client.into_split().await?;
    ///     let task = task::spawn(async move { writes.write_all(b"hello").await })?;
    ///     let mut greeting = [0; 5];
    ///     server.read_exact(&mut greeting).await?;
    ///     server.write_all(&greeting).await?;
    ///     reads.read_exact(&mut greeting).await?;
    ///     assert_eq!(&greeting, b"hello");
    ///     task.await.expect("the task does not panic")
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When no descriptor is left, or the connection has failed.
    pub async fn into_split(mut self) -> io::Result<(ReadHalf, WriteHalf)> {
        // A ring may still be sending.
        self.operate(Direction::Write, |socket| socket.call(|_| Ok(()))).await?;
        let mut writes = self.try_clone()?;
        writes.write_timeout = self.write_timeout;
        Ok((ReadHalf { stream: self }, WriteHalf { stream: Some(writes) }))
    }
}

impl ReadHalf {
    /// As [`TcpStream::read`].
    ///
    /// # Errors
    ///
    /// As there.
    #[track_caller]
    pub fn read<'s>(
        &'s mut self,
        buffer: &'s mut [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.stream.read(buffer)
    }

    /// As [`TcpStream::read_exact`].
    ///
    /// # Errors
    ///
    /// As there.
    #[track_caller]
    pub fn read_exact<'s>(
        &'s mut self,
        buffer: &'s mut [u8],
    ) -> impl Future<Output = io::Result<()>> + Send + 's {
        self.stream.read_exact(buffer)
    }

    /// Makes the two halves of a connection one stream again.
    ///
    /// # Errors
    ///
    /// Both halves, if they are of different connections.
    #[expect(clippy::result_large_err, reason = "both halves go back to the caller")]
    pub fn reunite(self, mut half: WriteHalf) -> Result<TcpStream, (Self, WriteHalf)> {
        let addresses =
            |stream: &TcpStream| Some((stream.local_addr().ok()?, stream.peer_addr().ok()?));
        let other = half.stream.as_ref().and_then(addresses);
        if other.is_none() || addresses(&self.stream) != other {
            return Err((self, half));
        }
        let mut stream = self.stream;
        stream.write_timeout = half.stream.take().and_then(|writes| writes.write_timeout);
        Ok(stream)
    }
}

impl WriteHalf {
    /// As [`TcpStream::write`].
    ///
    /// # Errors
    ///
    /// As there.
    #[track_caller]
    pub fn write<'s>(
        &'s mut self,
        bytes: &'s [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.stream().write(bytes)
    }

    /// As [`TcpStream::write_all`].
    ///
    /// # Errors
    ///
    /// As there.
    #[track_caller]
    pub fn write_all<'s>(
        &'s mut self,
        bytes: &'s [u8],
    ) -> impl Future<Output = io::Result<()>> + Send + 's {
        self.stream().write_all(bytes)
    }

    /// As [`TcpStream::write_all_vectored`].
    ///
    /// # Errors
    ///
    /// As there.
    #[track_caller]
    pub fn write_all_vectored<'s>(
        &'s mut self,
        buffers: &'s mut [IoSlice<'s>],
    ) -> impl Future<Output = io::Result<()>> + Send + 's {
        self.stream().write_all_vectored(buffers)
    }

    /// Ends writing after all that was written, as the drop does, and tells of its failure.
    ///
    /// # Errors
    ///
    /// As [`TcpStream::shutdown`].
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.stream().shutdown(Shutdown::Write).await
    }

    fn stream(&mut self) -> &mut TcpStream {
        self.stream.as_mut().expect("only `reunite` takes it, and the half with it")
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            // A stream with two handles sends at once, so all bytes are out. The peer may have
            // reset the connection.
            let _ = stream.socket.direct().shut_down(rustix::net::Shutdown::Write);
        }
    }
}
