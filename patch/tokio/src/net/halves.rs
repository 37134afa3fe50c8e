//! The methods of the halves of a stream. [`stream`](super::streams::stream) uses these macros.

/// Implements a reading half.
macro_rules! reads {
    ($half:ty, $stream:ident, $address:ty, |$this:ident| $inner:expr) => {
        impl $half {
            fn stream(&self) -> &$stream {
                let $this = self;
                $inner
            }

            /// As on the stream.
            ///
            /// # Errors
            ///
            /// As there.
            pub async fn ready(
                &self,
                interest: $crate::io::Interest,
            ) -> ::std::io::Result<$crate::io::Ready> {
                self.stream().ready(interest).await
            }

            /// As on the stream.
            ///
            /// # Errors
            ///
            /// As there.
            pub async fn readable(&self) -> ::std::io::Result<()> {
                self.stream().readable().await
            }

            /// As on the stream.
            ///
            /// # Errors
            ///
            /// As there.
            pub fn try_read(&self, buffer: &mut [u8]) -> ::std::io::Result<usize> {
                self.stream().try_read(buffer)
            }

            /// As on the stream.
            ///
            /// # Errors
            ///
            /// As there.
            pub fn try_read_vectored(
                &self,
                buffers: &mut [::std::io::IoSliceMut<'_>],
            ) -> ::std::io::Result<usize> {
                self.stream().try_read_vectored(buffers)
            }

            /// As on the stream.
            ///
            /// # Errors
            ///
            /// As there.
            pub fn try_read_buf<B: ::bytes::BufMut>(
                &self,
                buffer: &mut B,
            ) -> ::std::io::Result<usize> {
                self.stream().try_read_buf(buffer)
            }
        }
        $crate::net::halves::half!($half, $stream, $address);
        $crate::net::traits::async_read!($half, |half| half.stream());
    };
}

/// Implements a writing half.
macro_rules! writes {
    ($half:ty, $stream:ident, $address:ty, |$this:ident| $inner:expr) => {
        impl $half {
            fn stream(&self) -> &$stream {
                let $this = self;
                $inner
            }

            /// As on the stream.
            ///
            /// # Errors
            ///
            /// As there.
            pub async fn ready(
                &self,
                interest: $crate::io::Interest,
            ) -> ::std::io::Result<$crate::io::Ready> {
                self.stream().ready(interest).await
            }

            /// As on the stream.
            ///
            /// # Errors
            ///
            /// As there.
            pub async fn writable(&self) -> ::std::io::Result<()> {
                self.stream().writable().await
            }

            /// As on the stream.
            ///
            /// # Errors
            ///
            /// As there.
            pub fn try_write(&self, bytes: &[u8]) -> ::std::io::Result<usize> {
                self.stream().try_write(bytes)
            }

            /// As on the stream.
            ///
            /// # Errors
            ///
            /// As there.
            pub fn try_write_vectored(
                &self,
                buffers: &[::std::io::IoSlice<'_>],
            ) -> ::std::io::Result<usize> {
                self.stream().try_write_vectored(buffers)
            }
        }
        $crate::net::halves::half!($half, $stream, $address);
        $crate::net::traits::async_write!($half, |half| half.stream());
    };
}

/// Implements what both halves have.
macro_rules! half {
    ($half:ty, $stream:ident, $address:ty) => {
        impl $half {
            /// The address of the other end.
            ///
            /// # Errors
            ///
            /// The errors of `getpeername(2)`.
            pub fn peer_addr(&self) -> ::std::io::Result<$address> {
                self.stream().peer_addr()
            }

            /// The address of this end.
            ///
            /// # Errors
            ///
            /// The errors of `getsockname(2)`.
            pub fn local_addr(&self) -> ::std::io::Result<$address> {
                self.stream().local_addr()
            }
        }

        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                self.stream()
            }
        }
    };
}

pub(crate) use {half, reads, writes};
