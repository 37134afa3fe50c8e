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
pub(crate) enum Socket {
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
        use duality_runtime::net::tls::HANDSHAKE_TIME;
        use tokio::time::timeout;
        use tokio_rustls::TlsAcceptor;

        let Some(acceptor) = self.acceptor else { return Ok(Socket::Plain(stream)) };
        let handshake = Box::pin(TlsAcceptor::from(acceptor.config()).accept(stream));
        let made = timeout(HANDSHAKE_TIME, handshake).await;
        match made.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))? {
            Ok(stream) => Ok(Socket::Secure(Box::new(stream))),
            // Errors of the protocol are the client's, as on our streams.
            Err(error) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, error)),
        }
    }

    /// Begins a connection without a handshake.
    #[cfg(not(feature = "rustls"))]
    #[expect(clippy::unused_async, reason = "the build with TLS waits here")]
    pub(crate) async fn begin(self, stream: TcpStream) -> io::Result<Socket> {
        Ok(Socket::Plain(stream))
    }
}

impl Socket {
    /// Whether neither bytes nor an end are in the kernel's buffer.
    pub(crate) fn is_quiet(&self) -> bool {
        let stream = match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "rustls")]
            Self::Secure(stream) => stream.get_ref().0,
        };
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(recv(stream, &mut [0; 1], flags), Err(Errno::WOULDBLOCK))
    }

    /// The protocol that the handshake has agreed on.
    pub(crate) fn agreed_protocol(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(_) => None,
            #[cfg(feature = "rustls")]
            Self::Secure(stream) => stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec),
        }
    }
}

/// Calls a method of the stream.
macro_rules! forward {
    ($socket:expr, $method:path $(, $argument:expr)*) => {
        match $socket.get_mut() {
            Socket::Plain(stream) => $method(Pin::new(stream) $(, $argument)*),
            #[cfg(feature = "rustls")]
            Socket::Secure(stream) => $method(Pin::new(stream) $(, $argument)*),
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        forward!(self, AsyncRead::poll_read, context, buffer)
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
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            #[cfg(feature = "rustls")]
            Self::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, AsyncWrite::poll_flush, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, AsyncWrite::poll_shutdown, context)
    }
}
