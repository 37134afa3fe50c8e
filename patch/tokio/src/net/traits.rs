//! tokio's traits for streams and their halves, by macros.

/// Implements tokio's `AsyncRead` by the socket of a stream.
macro_rules! async_read {
    ($type:ty, |$this:ident| $inner:expr) => {
        impl ::real::io::AsyncRead for $type {
            fn poll_read(
                self: ::std::pin::Pin<&mut Self>,
                context: &mut ::std::task::Context<'_>,
                buffer: &mut ::real::io::ReadBuf<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                let $this = &*self;
                $inner.socket.poll_read(context, buffer)
            }
        }
    };
}

/// Implements tokio's `AsyncWrite` by the socket of a stream.
macro_rules! async_write {
    ($type:ty, |$this:ident| $inner:expr) => {
        impl ::real::io::AsyncWrite for $type {
            fn poll_write(
                self: ::std::pin::Pin<&mut Self>,
                context: &mut ::std::task::Context<'_>,
                bytes: &[u8],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $inner.socket.poll_write(context, bytes)
            }

            fn poll_write_vectored(
                self: ::std::pin::Pin<&mut Self>,
                context: &mut ::std::task::Context<'_>,
                buffers: &[::std::io::IoSlice<'_>],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $inner.socket.poll_write_vectored(context, buffers)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(
                self: ::std::pin::Pin<&mut Self>,
                _: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                // The kernel already has all written bytes.
                ::std::task::Poll::Ready(Ok(()))
            }

            fn poll_shutdown(
                self: ::std::pin::Pin<&mut Self>,
                _: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                let $this = &*self;
                ::std::task::Poll::Ready($inner.socket.shutdown(::std::net::Shutdown::Write))
            }
        }
    };
}

pub(crate) use {async_read, async_write};
