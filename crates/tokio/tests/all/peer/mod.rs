//! A server of HTTP/2 written by hand, frame by frame (RFC 9113, section 4), which also breaks the
//! protocol.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// It answers each request by the status 200, without a body.
    Answers,
    /// It answers one request, says GOAWAY, and closes.
    AnswersOnce,
    /// It answers in HTTP/1.1.
    Http1,
    /// It says GOAWAY at once.
    GoesAway { code: u8 },
    /// It resets each stream.
    Resets { code: u8 },
    /// It says nothing.
    Silent,
    /// It closes after the request.
    Closes,
    /// It sends bytes that are no frames.
    Garbage,
    /// It closes in the middle of a body.
    HalfReply,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;

/// The status 200, in HPACK's static table (RFC 7541, appendix A).
const OK: &[u8] = &[0x88];

/// A listener on a thread of its own, which ends with the process of the test.
pub(crate) struct Peer {
    address: SocketAddr,
}

impl Peer {
    /// Starts a peer. Each connection has the next behaviour, and further ones have the last.
    pub(crate) fn start<const N: usize>(behaviours: [Behaviour; N]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let behaviour = behaviours[number.min(N - 1)];
                let Ok(stream) = stream else { return };
                // A client may break off at any time.
                thread::spawn(move || drop(serve(stream, behaviour)));
            }
        });
        Self { address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

fn serve(mut stream: TcpStream, behaviour: Behaviour) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut preface = [0; PREFACE.len()];
    stream.read_exact(&mut preface)?;
    assert_eq!(preface, PREFACE);
    match behaviour {
        Behaviour::Http1 => {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
        }
        Behaviour::Garbage => {
            stream.write_all(&[0xff; 100])?;
        }
        Behaviour::GoesAway { code } => {
            stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
            stream.write_all(&frame(GO_AWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, code]))?;
        }
        _ => {
            stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
        }
    }
    loop {
        let (kind, flags, number) = next_frame(&mut stream)?;
        match (kind, behaviour) {
            (HEADERS, Behaviour::Answers) => {
                // The flags: the headers and the stream end here.
                stream.write_all(&frame(HEADERS, 5, number, OK))?;
            }
            (HEADERS, Behaviour::AnswersOnce) => {
                stream.write_all(&frame(HEADERS, 5, number, OK))?;
                let last = number.to_be_bytes();
                stream.write_all(&frame(GO_AWAY, 0, 0, &[&last[..], &[0; 4]].concat()))?;
                // A close would be a reset, if the client has sent anything meanwhile.
                stream.shutdown(Shutdown::Write)?;
                return io::copy(&mut stream, &mut io::sink()).map(drop);
            }
            (HEADERS, Behaviour::HalfReply) => {
                // The flag: the headers end here. The frame of data is cut off.
                stream.write_all(&frame(HEADERS, 4, number, OK))?;
                return stream.write_all(&frame(0, 0, number, &[b'x'; 100])[..50]);
            }
            (HEADERS, Behaviour::Closes) => return Ok(()),
            (HEADERS, Behaviour::Resets { code }) => {
                stream.write_all(&frame(RESET, 0, number, &[0, 0, 0, code]))?;
            }
            // The flag: an acknowledgement.
            (SETTINGS, _) if flags == 0 && behaviour != Behaviour::Silent => {
                stream.write_all(&frame(SETTINGS, 1, 0, &[]))?;
            }
            (PING, _) => return Err(io::ErrorKind::Unsupported.into()),
            _ => {}
        }
    }
}

/// Reads a frame: its type, its flags and its stream.
fn next_frame(stream: &mut TcpStream) -> io::Result<(u8, u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    io::copy(&mut Read::take(&mut *stream, length.into()), &mut io::sink())?;
    let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Ok((head[3], head[4], number))
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}
