//! Faults of clients and of their network. Each fault is bounded in time, and ends early with the
//! round. The server owes these clients no reply.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::client::Client;
use super::rounds::Protocol;
use super::wire::Wire;

/// The longest time that a client at fault stays.
const STAY: Duration = Duration::from_millis(1500);

pub(super) fn leave_at_once(client: &mut Client<'_>) -> io::Result<()> {
    client.connect().map(drop)
}

/// Connects, sends nothing for a while, and leaves.
pub(super) fn silent(client: &mut Client<'_>) -> io::Result<()> {
    let wire = client.connect()?;
    client.stay();
    client.go(wire)
}

pub(super) fn reset_before(client: &mut Client<'_>) -> io::Result<()> {
    client.connect()?.reset()
}

pub(super) fn reset_within(client: &mut Client<'_>) -> io::Result<()> {
    let mut wire = client.connect()?;
    client.send_part(&mut wire)?;
    if client.one_in(2) {
        client.stay();
    }
    wire.reset()
}

pub(super) fn reset_after(client: &mut Client<'_>) -> io::Result<()> {
    let mut wire = client.connect()?;
    wire.send(&client.question(false).bytes)?;
    wire.reset()
}

/// Asks for a long reply, takes some of the bytes, and breaks off.
pub(super) fn reset_in_reply(client: &mut Client<'_>) -> io::Result<()> {
    let mut wire = client.ask_for_much()?;
    wire.some(1 + client.below(20_000))?;
    wire.reset()
}

/// Sends a part of a request and ends the client's side. Then takes the bytes that come.
pub(super) fn half_close_within(client: &mut Client<'_>) -> io::Result<()> {
    let mut wire = client.connect()?;
    client.send_part(&mut wire)?;
    wire.half_close()?;
    client.listen(wire)
}

/// Sends bytes of all values, with an end of line now and then, so that the server takes them for
/// requests.
pub(super) fn garbage(client: &mut Client<'_>) -> io::Result<()> {
    let mut wire = client.connect()?;
    for _ in 0..=client.below(3) {
        let length = 1 + client.below(3000);
        let mut bytes: Vec<u8> = (0..length).map(|_| client.below(256) as u8).collect();
        match client.below(4) {
            0 => bytes.extend_from_slice(b"\r\n\r\n"),
            1 => bytes.push(b'\n'),
            // The right beginning, with one wrong byte.
            2 => {
                bytes = client.question(true).bytes;
                let at = client.below(bytes.len());
                bytes[at] = client.below(256) as u8;
            }
            _ => {}
        }
        wire.send(&bytes)?;
    }
    client.listen(wire)
}

pub(super) fn head_too_large(client: &mut Client<'_>) -> io::Result<()> {
    let mut wire = client.connect()?;
    wire.send(b"GET / HTTP/1.1\r\nHost: soak\r\n")?;
    for number in 0..100 + client.below(1000) {
        wire.send(format!("X-Field-{number}: {number:060}\r\n").as_bytes())?;
    }
    client.listen(wire)
}

pub(super) fn body_too_large(client: &mut Client<'_>) -> io::Result<()> {
    let mut wire = client.connect()?;
    let length = (65 + client.below(200)) << 10;
    let chunked = client.one_in(2);
    let coding = match chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {length}"),
    };
    wire.send(format!("POST / HTTP/1.1\r\nHost: soak\r\n{coding}\r\n\r\n").as_bytes())?;
    for _ in 0..length >> 10 {
        if chunked {
            wire.send(b"400\r\n")?;
        }
        wire.send(&[b'x'; 1 << 10])?;
        if chunked {
            wire.send(b"\r\n")?;
        }
    }
    client.listen(wire)
}

/// Asks for a long reply, and takes a few bytes at a time.
pub(super) fn slow_reader(client: &mut Client<'_>) -> io::Result<()> {
    let mut wire = client.ask_for_much()?;
    let until = Instant::now() + STAY;
    while Instant::now() < until && !client.scene.is_over() {
        wire.some(1 + client.below(4000))?;
        sleep(Duration::from_millis(client.random.below(20)));
    }
    client.go(wire)
}

/// Asks for a long reply, takes no bytes, and leaves.
pub(super) fn reads_nothing(client: &mut Client<'_>) -> io::Result<()> {
    let wire = client.ask_for_much()?;
    client.stay();
    client.go(wire)
}

impl Client<'_> {
    /// Sends the beginning of a request.
    fn send_part(&mut self, wire: &mut Wire) -> io::Result<()> {
        let bytes = self.question(false).bytes;
        let length = self.below(bytes.len());
        wire.send(&bytes[..length])
    }

    /// Opens a connection and asks for more bytes than sockets hold. Under http, asks for megabytes
    /// of replies. Elsewhere, sends as much as a socket takes.
    fn ask_for_much(&mut self) -> io::Result<Wire> {
        let mut wire = self.connect()?;
        wire.hurry(STAY)?;
        let bytes = match self.scene.service {
            Protocol::Http | Protocol::Guestbook => {
                b"GET /large.txt HTTP/1.1\r\nHost: soak\r\n\r\n".repeat(1 + self.below(100))
            }
            // Lines of 64 bytes. The server echoes all lines, or sends them to the other clients.
            Protocol::Echo => [b'e'; 64].repeat(1 << (4 + self.below(10))),
            Protocol::Chat => format!("{:>63}\n", "much").into_bytes().repeat(1 + self.below(50)),
        };
        wire.try_send(&bytes)?;
        Ok(wire)
    }

    /// Takes the bytes that come, until none comes for [`STAY`].
    fn listen(&mut self, wire: Wire) -> io::Result<()> {
        wire.hurry(STAY)?;
        if self.one_in(4) {
            return wire.reset();
        }
        wire.into_rest(1 << 20).map(drop)
    }

    /// Leaves the connection by a close or a reset.
    fn go(&mut self, wire: Wire) -> io::Result<()> {
        if self.one_in(2) { wire.reset() } else { Ok(()) }
    }

    /// Waits for a while, unless the round is over.
    fn stay(&mut self) {
        let until = Instant::now() + STAY / 100 * self.random.below(100) as u32;
        while Instant::now() < until && !self.scene.is_over() {
            sleep(Duration::from_millis(10));
        }
    }
}
