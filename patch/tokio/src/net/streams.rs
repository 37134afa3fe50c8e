//! The methods and halves that streams of TCP and of Unix sockets share.
//!
//! [`stream`] makes them for a type with a field `socket`. Each half is a reference to its stream,
//! because an operation needs no exclusive one.

/// Implements the common part of a stream `$stream` with addresses `$address`.
macro_rules! stream {
    ($stream:ident, $std:ty, $address:ty) => {
        impl $stream {
            /// Takes a stream of `std`, in non-blocking mode.
            ///
            /// # Errors
            ///
            /// The errors of `fcntl(2)`.
            pub fn from_std(stream: $std) -> ::std::io::Result<Self> {
                Ok(Self { socket: Socket::new(::std::os::fd::OwnedFd::from(stream))? })
            }

            /// The stream of `std`, which stays in non-blocking mode.
            ///
            /// # Errors
            ///
            /// If no descriptor is left.
            pub fn into_std(self) -> ::std::io::Result<$std> {
                Ok(self.socket.into_descriptor()?.into())
            }

            /// The error that the socket has kept, if it has one.
            ///
            /// # Errors
            ///
            /// The errors of `getsockopt(2)`.
            pub fn take_error(&self) -> ::std::io::Result<Option<::std::io::Error>> {
                self.socket.take_error()
            }

            /// Waits until one of the interests comes true.
            ///
            /// # Errors
            ///
            /// The errors of `poll(2)`.
            pub async fn ready(
                &self,
                interest: $crate::io::Interest,
            ) -> ::std::io::Result<$crate::io::Ready> {
                self.socket.ready(interest).await
            }

            /// Waits until a read does not wait.
            ///
            /// # Errors
            ///
            /// The errors of `poll(2)`.
            pub async fn readable(&self) -> ::std::io::Result<()> {
                self.socket.readable().await
            }

            /// Waits until a write does not wait.
            ///
            /// # Errors
            ///
            /// The errors of `poll(2)`.
            pub async fn writable(&self) -> ::std::io::Result<()> {
                self.socket.writable().await
            }

            /// Like [`readable`](Self::readable), for a future of one's own.
            pub fn poll_read_ready(
                &self,
                context: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                self.socket.poll_ready(context, ::duality_poller::Direction::Read)
            }

            /// Like [`writable`](Self::writable), for a future of one's own.
            pub fn poll_write_ready(
                &self,
                context: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                self.socket.poll_ready(context, ::duality_poller::Direction::Write)
            }

            /// Reads without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `recv(2)`.
            pub fn try_read(&self, buffer: &mut [u8]) -> ::std::io::Result<usize> {
                self.socket.try_read(buffer)
            }

            /// Reads into several buffers without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `readv(2)`.
            pub fn try_read_vectored(
                &self,
                buffers: &mut [::std::io::IoSliceMut<'_>],
            ) -> ::std::io::Result<usize> {
                self.socket.try_read_vectored(buffers)
            }

            /// Reads into a buffer of the crate bytes without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `recv(2)`.
            pub fn try_read_buf<B: ::bytes::BufMut>(
                &self,
                buffer: &mut B,
            ) -> ::std::io::Result<usize> {
                self.socket.try_read_buf(buffer)
            }

            /// Writes without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `send(2)`.
            pub fn try_write(&self, bytes: &[u8]) -> ::std::io::Result<usize> {
                self.socket.try_write(bytes)
            }

            /// Writes several buffers without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock`, and the errors of `writev(2)`.
            pub fn try_write_vectored(
                &self,
                buffers: &[::std::io::IoSlice<'_>],
            ) -> ::std::io::Result<usize> {
                self.socket.try_write_vectored(buffers)
            }

            /// Calls `operation` once.
            ///
            /// # Errors
            ///
            /// The errors of `operation`.
            pub fn try_io<R>(
                &self,
                _: $crate::io::Interest,
                operation: impl FnOnce() -> ::std::io::Result<R>,
            ) -> ::std::io::Result<R> {
                operation()
            }

            /// Calls `operation` until it does not return `WouldBlock`. Waits for the interest
            /// before each further call.
            ///
            /// # Errors
            ///
            /// The errors of `operation`.
            pub async fn async_io<R>(
                &self,
                interest: $crate::io::Interest,
                operation: impl FnMut() -> ::std::io::Result<R>,
            ) -> ::std::io::Result<R> {
                self.socket.async_io(interest, operation).await
            }

            /// The two directions, which borrow the stream.
            pub fn split<'a>(&'a mut self) -> (ReadHalf<'a>, WriteHalf<'a>) {
                (ReadHalf(self), WriteHalf(self))
            }

            /// The two directions, for two tasks. The stream has one descriptor as before.
            #[must_use]
            pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
                let stream = ::std::sync::Arc::new(self);
                let reads = OwnedReadHalf { stream: stream.clone() };
                (reads, OwnedWriteHalf { stream, ends_at_drop: true })
            }
        }

        impl TryFrom<$std> for $stream {
            type Error = ::std::io::Error;

            fn try_from(stream: $std) -> ::std::io::Result<Self> {
                Self::from_std(stream)
            }
        }

        impl AsRef<Self> for $stream {
            fn as_ref(&self) -> &Self {
                self
            }
        }

        impl ::std::os::fd::AsFd for $stream {
            fn as_fd(&self) -> ::std::os::fd::BorrowedFd<'_> {
                self.socket.as_fd()
            }
        }

        impl ::std::os::fd::AsRawFd for $stream {
            fn as_raw_fd(&self) -> ::std::os::fd::RawFd {
                self.socket.as_raw_fd()
            }
        }

        impl ::std::fmt::Debug for $stream {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut shown = formatter.debug_struct(stringify!($stream));
                shown.field("addr", &self.local_addr().ok()).field("peer", &self.peer_addr().ok());
                shown.field("fd", &::std::os::fd::AsRawFd::as_raw_fd(self)).finish()
            }
        }

        /// The reading half of a borrowed stream.
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        /// The writing half of a borrowed stream.
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        /// The reading half of a stream.
        #[derive(Debug)]
        pub struct OwnedReadHalf {
            stream: ::std::sync::Arc<$stream>,
        }

        /// The writing half of a stream. Its drop ends writing, unless it is
        /// [forgotten](OwnedWriteHalf::forget).
        #[derive(Debug)]
        pub struct OwnedWriteHalf {
            stream: ::std::sync::Arc<$stream>,
            ends_at_drop: bool,
        }

        /// The halves are of different streams.
        #[derive(Debug)]
        pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

        impl ::std::fmt::Display for ReuniteError {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str("tried to reunite halves that are not from the same socket")
            }
        }

        impl ::std::error::Error for ReuniteError {}

        impl OwnedReadHalf {
            /// Makes the halves one stream again.
            ///
            /// # Errors
            ///
            /// Both halves, if they are of different streams.
            pub fn reunite(self, other: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                if !::std::sync::Arc::ptr_eq(&self.stream, &other.stream) {
                    return Err(ReuniteError(self, other));
                }
                other.forget();
                Ok(::std::sync::Arc::into_inner(self.stream).expect("a stream has two halves"))
            }
        }

        impl OwnedWriteHalf {
            /// Makes the halves one stream again.
            ///
            /// # Errors
            ///
            /// Both halves, if they are of different streams.
            pub fn reunite(self, other: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                other.reunite(self)
            }

            /// Drops the half without ending writing.
            pub fn forget(mut self) {
                self.ends_at_drop = false;
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.ends_at_drop {
                    // The peer may have ended the connection.
                    let _ = self.stream.socket.shutdown(::std::net::Shutdown::Write);
                }
            }
        }

        $crate::net::halves::reads!(ReadHalf<'_>, $stream, $address, |half| half.0);
        $crate::net::halves::reads!(OwnedReadHalf, $stream, $address, |half| &*half.stream);
        $crate::net::halves::writes!(WriteHalf<'_>, $stream, $address, |half| half.0);
        $crate::net::halves::writes!(OwnedWriteHalf, $stream, $address, |half| &*half.stream);
        $crate::net::traits::async_read!($stream, |stream| stream);
        $crate::net::traits::async_write!($stream, |stream| stream);
    };
}

pub(crate) use stream;
