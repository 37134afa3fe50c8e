//! A connection on a runtime of tokio: plain, or by TLS (feature `rustls`).
//!
//! Both are one type, so that the application is compiled once for tokio's streams.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[cfg(feature = "rustls")]
type Secure = tokio_rustls::server::TlsStream<TcpStream>;

/// How connections begin: by a handshake, or at once.
#[derive(Clone, Default)]
pub(crate) struct Security {
    #[cfg(feature = "rustls")]
    acceptor: Option<std::sync::Arc<duality_runtime::net::tls::Acceptor>>,
}

/// A connection after its handshake.
pub(crate) struct Socket {
    stream: Stream,
    /// Whether a read has found the end of the input.
    has_ended: bool,
}

enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "rustls")]
    Secure(Box<Secure>),
}

impl Security {
    /// Handshakes by `acceptor`.
    #[cfg(feature = "rustls")]
    pub(crate) fn by(acceptor: std::sync::Arc<duality_runtime::net::tls::Acceptor>) -> Self {
        Self { acceptor: Some(acceptor) }
    }

    /// Makes the handshake of a connection, if connections have one.
    ///
    /// # Errors
    ///
    /// `TimedOut` if the client is slow, and the errors of the handshake.
    #[cfg(feature = "rustls")]
    pub(crate) async fn begin(self, stream: TcpStream) -> io::Result<Socket> {
        use tokio::time::timeout;
        use tokio_rustls::TlsAcceptor;

        let Some(acceptor) = self.acceptor else { return Ok(Socket::of(Stream::Plain(stream))) };
        let handshake = Box::pin(TlsAcceptor::from(acceptor.config()).accept(stream));
        let made = timeout(acceptor.handshake_time(), handshake).await;
        match made.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))? {
            Ok(stream) => Ok(Socket::of(Stream::Secure(Box::new(stream)))),
            // Errors of the protocol are the client's, as on our streams.
            Err(error) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, error)),
        }
    }

    /// Begins a connection without a handshake.
    #[cfg(not(feature = "rustls"))]
    #[expect(clippy::unused_async, reason = "the build with TLS waits here")]
    pub(crate) async fn begin(self, stream: TcpStream) -> io::Result<Socket> {
        Ok(Socket::of(Stream::Plain(stream)))
    }
}

impl Socket {
    fn of(stream: Stream) -> Self {
        Self { stream, has_ended: false }
    }

    /// Whether a read has found the end of the input.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether neither bytes nor an end are in the kernel's buffer.
    pub(crate) fn is_quiet(&self) -> bool {
        let stream = match &self.stream {
            Stream::Plain(stream) => stream,
            #[cfg(feature = "rustls")]
            Stream::Secure(stream) => stream.get_ref().0,
        };
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(recv(stream, &mut [0; 1], flags), Err(Errno::WOULDBLOCK))
    }

    /// The protocol that the handshake has agreed on.
    pub(crate) fn agreed_protocol(&self) -> Option<Vec<u8>> {
        match &self.stream {
            Stream::Plain(_) => None,
            #[cfg(feature = "rustls")]
            Stream::Secure(stream) => stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec),
        }
    }
}

/// Calls a method of the stream.
macro_rules! forward {
    ($socket:expr, $method:path $(, $argument:expr)*) => {
        match &mut $socket.get_mut().stream {
            Stream::Plain(stream) => $method(Pin::new(stream) $(, $argument)*),
            #[cfg(feature = "rustls")]
            Stream::Secure(stream) => $method(Pin::new(stream) $(, $argument)*),
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        let read = forward!(self.as_mut(), AsyncRead::poll_read, context, buffer);
        self.has_ended |=
            matches!(read, Poll::Ready(Ok(()))) && room > 0 && buffer.remaining() == room;
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        forward!(self, AsyncWrite::poll_write, context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        forward!(self, AsyncWrite::poll_write_vectored, context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            #[cfg(feature = "rustls")]
            Stream::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, AsyncWrite::poll_flush, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, AsyncWrite::poll_shutdown, context)
    }
}
