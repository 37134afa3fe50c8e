//! The handshake of TLS (RFC 8446, RFC 5246), as straight-line code in every world.

use std::io;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use duality_poller::Direction;

use super::TcpStream;
use crate::net::socket::Moved;
use crate::net::tls::{Acceptor, Connector, Session, reply_to};
use crate::places::Handshake;
use crate::time::{clock, timeout};

/// The longest record (RFC 8446, section 5.2), and so enough for most flights.
const FLIGHT: usize = 16 << 10;

/// The time that a client without TLS has for its line, and to take its reply.
const PLAIN_TIME: Duration = Duration::from_secs(1);

impl TcpStream {
    /// Makes the server's side of a TLS handshake. Reads and writes are encrypted afterwards. The
    /// stream's time-outs are as before.
    ///
    /// # Errors
    ///
    /// `TimedOut` after `limit`. `ConnectionAborted` where the client leaves, or does not speak TLS
    /// as the acceptor does; the client is told. One that speaks plain HTTP is told so by a status
    /// 400.
    pub async fn accept_tls(self, acceptor: &Acceptor, limit: Duration) -> io::Result<Self> {
        let session = acceptor.session()?;
        self.shake_hands(session, limit).await
    }

    /// Makes the client's side of a TLS handshake, as [`accept_tls`](TcpStream::accept_tls) makes
    /// the server's.
    ///
    /// # Errors
    ///
    /// The errors of [`accept_tls`](TcpStream::accept_tls), among them a certificate that is not
    /// trusted.
    pub async fn connect_tls(self, connector: &Connector, limit: Duration) -> io::Result<Self> {
        let session = connector.session()?;
        self.shake_hands(session, limit).await
    }

    /// The protocol that the handshake has agreed on (ALPN, RFC 7301), such as
    /// [`HTTP_2`](crate::net::tls::HTTP_2). `None` without TLS, and if a side offered none.
    #[must_use]
    pub fn agreed_protocol(&self) -> Option<Vec<u8>> {
        self.socket.channel.as_ref()?.agreed_protocol()
    }

    async fn shake_hands(mut self, session: Session, limit: Duration) -> io::Result<Self> {
        let before = (self.read_timeout, self.write_timeout);
        let deadline = clock::now() + limit;
        let mut buffer = vec![0; FLIGHT];
        let handshake = Handshake::begin();
        loop {
            let output = session.take_output()?;
            self.set_write_timeout(Some(left_until(deadline)?))?;
            self.write_all(&output).await?;
            if !session.is_handshaking() {
                break;
            }
            let mut count = self.receive_until(deadline, &mut buffer).await?;
            // No record of TLS begins with a letter. A line of HTTP may come in pieces.
            let end = deadline.min(clock::now() + PLAIN_TIME);
            while session.expects_client()
                && buffer[0].is_ascii_uppercase()
                && !buffer[..count].contains(&b'\n')
                && count < buffer.len()
            {
                match self.receive_until(end, &mut buffer[count..]).await {
                    Ok(more) => count += more,
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => break,
                    Err(error) => return Err(error),
                }
            }
            if let Some(reply) =
                session.expects_client().then(|| reply_to(&buffer[..count])).flatten()
            {
                Box::pin(self.refuse_plainly(reply)).await;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if let Err(error) = session.take_input(&buffer[..count]) {
                // The alert that says why.
                let _ = self.write_all(&session.take_output()?).await;
                return Err(error);
            }
        }
        drop(handshake);
        self.set_read_timeout(before.0)?;
        self.set_write_timeout(before.1)?;
        let beneath = self.socket.channel.take();
        self.socket.channel = Some(Box::new(session.above(beneath)));
        Ok(self)
    }

    /// Receives bytes of the handshake, at least one.
    async fn receive_until(&mut self, deadline: Instant, buffer: &mut [u8]) -> io::Result<usize> {
        self.set_read_timeout(Some(left_until(deadline)?))?;
        // What follows the handshake may have come with it, so that no read is the last.
        let read =
            self.operate(Direction::Read, |socket| Ok(Moved::all(socket.receive(buffer)?.value)));
        match read.await? {
            0 => Err(io::ErrorKind::ConnectionAborted.into()),
            count => Ok(count),
        }
    }

    /// Answers a client that does not speak TLS, and waits for its end: a close with unread bytes
    /// could destroy the reply.
    async fn refuse_plainly(&mut self, reply: &[u8]) {
        let refusing = async {
            self.write_all(reply).await?;
            self.shutdown(Shutdown::Write).await?;
            let mut dropped = [0; 1024];
            while self.read(&mut dropped).await? > 0 {}
            io::Result::Ok(())
        };
        // The client has been told, or does not listen.
        let _ = timeout(PLAIN_TIME, refusing).await;
    }
}

/// The time until a deadline. An error after it.
fn left_until(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(clock::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}
