//! The methods and halves that streams of TCP and of Unix sockets share.
//!
//! [`stream`] makes them for a type with a field `socket`. Each half is a reference to its stream,
//! because an operation needs no exclusive one.

/// Implements the common part of a stream `$stream` with addresses `$address`.
macro_rules! stream {
    ($stream:ident, $std:ty, $address:ty) => {
        $crate::net::common::of_std!($stream, $std);
        $crate::net::common::readiness!($stream);

        impl $stream {
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

        impl AsRef<Self> for $stream {
            fn as_ref(&self) -> &Self {
                self
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
