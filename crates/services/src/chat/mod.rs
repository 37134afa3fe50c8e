//! The chat service: each line of a client goes to all other clients.
//!
//! ```text
//!   client ──▶ reader ── say ──▶ room ── next ──▶ writer ──▶ client
//!             (the task            (room, log)     (a task of its own)
//!              of the connection)
//! ```
//!
//! The protocol consists of lines. A line ends with LF, and a CR before the LF is dropped. The
//! server's lines end with LF.
//!
//! * On joining, a client gets `* you are N`. N is the client's number. Numbers begin at 1, and
//!   none is used twice.
//! * A client N sends lines of at most 1,024 bytes. Each goes, as `N> ` and the line, to all other
//!   clients that had joined before the line arrived. Each of these clients gets the line exactly
//!   once, in one order that is the same for all. The line never goes to client N itself.
//! * After a longer line, the client gets a line that begins with `ERROR`, and the connection ends.
//! * A client that closes its side still gets all earlier lines, and then the connection ends. A
//!   client that is silent for an hour counts as having closed its side.
//! * No client waits for a slow client. A client that is more than the *backlog* behind (16 MiB by
//!   default) gets `* too slow`, and the connection ends. If a client takes nothing at all for 30
//!   seconds, the connection ends without a message.
//! * A client that sends faster than it reads is slowed. If it is a quarter of the backlog behind,
//!   the server does not read its lines until it has caught up.
//! * If a descriptor, thread or stack for a connection is lacking, the client gets `* the server is
//!   full`, and the connection ends.
//!
//! With `--store redis://HOST:PORT` the clients of several servers are in one room
//! (`docs/chat.md`). The same rules hold for all of them together. If Redis is unavailable, clients
//! get `* the store is unavailable`, and their connections end.

pub(crate) mod across;
pub(crate) mod log;
mod room;

use std::{io, mem, net::Shutdown, sync::Arc, time::Duration};

use duality_runtime::{
    net::{Line, Lines, TcpStream},
    task::{self, JoinHandle},
};

use crate::{
    Entry, Setting,
    line::{FULL, PATIENCE, UNAVAILABLE, bound_patience, linger},
    shared,
    store::Channel,
};
use across::{Across, Refusal};
use log::STRETCH;
use room::{Member, Next, Room};

/// The chat service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "chat",
    summary: "passes what each client says to all the others",
    protocol: "lines of text, see docs/protocols.md",
    open: |setup| {
        let chat = match setup.open_channel(ENTRY.name)? {
            Some(channel) => Chat::across(channel),
            None => Chat::new(),
        };
        Ok(shared(chat, |chat, stream| async move { chat.serve(stream).await }))
    },
    settings: &[Setting::Store],
    shared_memory: true,
    concurrent_connections: true,
    descriptors: 2,
    tls: false,
    ..Entry::PLAIN
};

/// The most bytes in a client's line.
const LONGEST: usize = 1024;

/// The time that a client may stay silent.
const SILENCE: Duration = Duration::from_secs(60 * 60);

/// The number of bytes that a client may fall behind by default.
const BACKLOG: usize = 16 << 20;

/// A chat service, shared by all its connections; a clone is the same service.
#[derive(Clone)]
pub struct Chat {
    rooms: Rooms,
    /// The time for which a client may take no bytes.
    patience: Duration,
}

/// The clients' meeting place.
#[derive(Clone)]
enum Rooms {
    /// The one room of this process.
    Here(Arc<Room>),
    /// A room that several servers share.
    Across(Arc<Across>),
}

impl Chat {
    /// A chat with a backlog of 16 MiB for each client.
    #[must_use]
    pub fn new() -> Self {
        Self::with_backlog(BACKLOG)
    }

    /// A chat with clients that may fall `bytes` behind, but at least 16 KiB. All clients share one
    /// backlog of that size; each also has a buffer of at most 32 KiB.
    #[must_use]
    pub fn with_backlog(bytes: usize) -> Self {
        let room = Room::new(bytes.max(STRETCH));
        Self { rooms: Rooms::Here(Arc::new(room)), patience: PATIENCE }
    }

    /// The same chat on each server that has this channel. All clients of one event loop, or of one
    /// process without loops, share a backlog of 16 MiB.
    #[must_use]
    pub fn across(channel: Channel) -> Self {
        let across = Across::new(channel, BACKLOG);
        Self { rooms: Rooms::Across(Arc::new(across)), patience: PATIENCE }
    }

    /// Sets how long a client may take nothing. A `limit` below a millisecond counts as a
    /// millisecond.
    #[must_use]
    pub fn with_patience(self, limit: Duration) -> Self {
        Self { patience: limit, ..self }
    }

    /// Lets the client take part until it leaves.
    ///
    /// # Errors
    ///
    /// The connection broke, or the client took nothing for too long.
    pub async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(SILENCE))?;
        bound_patience(&mut stream, self.patience)?;
        let place = match self.enter(&mut stream).await {
            Ok(place) => place,
            Err(refusal) => {
                stream.write_all(refusal.word()).await?;
                linger(&mut stream).await;
                return Ok(());
            }
        };
        let Place { room, member, writer } = place;
        let heard = self.listen(&room, &member, &mut stream).await;
        if let (Rooms::Across(across), Ok(Hearing::End | Hearing::TooLong)) = (&self.rooms, &heard)
        {
            // Waits for earlier lines of other servers' clients. If the room is cut off, the writer
            // finds out.
            let _ = across.say(&room, &member, &[]).await;
        }
        room.leave(&member);
        // From here on, only this task writes to the client.
        let delivered = writer.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let word: &[u8] = match (heard?, delivered?) {
            (_, Parting::TooSlow) => b"* too slow\n",
            (_, Parting::Cut) | (Hearing::Unsaid, Parting::Even) => UNAVAILABLE,
            (Hearing::TooLong, Parting::Even) => b"ERROR a line is at most 1024 bytes\n",
            (Hearing::End, Parting::Even) => return Ok(()),
        };
        stream.write_all(word).await?;
        linger(&mut stream).await;
        Ok(())
    }

    /// Makes the client a member, and starts its writer.
    async fn enter(&self, stream: &mut TcpStream) -> Result<Place, Refusal> {
        let mut output = stream.try_clone()?;
        output.set_write_timeout(Some(self.patience))?;
        let (room, member) = match &self.rooms {
            Rooms::Here(room) => (room.clone(), room.join()),
            Rooms::Across(across) => across.join().await?,
        };
        match task::spawn(write(room.clone(), member.clone(), output)) {
            Ok(writer) => Ok(Place { room, member, writer }),
            Err(error) => {
                room.leave(&member);
                Err(error.into())
            }
        }
    }

    /// Reads the member's lines and says them in the room.
    async fn listen(
        &self,
        room: &Room,
        member: &Arc<Member>,
        stream: &mut TcpStream,
    ) -> io::Result<Hearing> {
        let mut lines = Lines::new(LONGEST);
        let (mut message, mut begun) = (Vec::new(), 0);
        loop {
            let text = match lines.next(stream).await? {
                Line::Text(text) => text,
                Line::TooLong => return Ok(Hearing::TooLong),
                Line::End => return Ok(Hearing::End),
            };
            stream.begin_request();
            begun += 1;
            let end = match &self.rooms {
                Rooms::Here(room) => room.say(member, text),
                Rooms::Across(across) => {
                    message.extend_from_slice(member.prefix());
                    message.extend_from_slice(text);
                    message.push(b'\n');
                    if message.len() < across::MESSAGE && lines.has_whole_line() {
                        continue;
                    }
                    match across.say(room, member, &message).await {
                        Ok(end) => end,
                        Err(_) => return Ok(Hearing::Unsaid),
                    }
                }
            };
            message.clear();
            (0..mem::take(&mut begun)).for_each(|_| stream.end_request());
            if !room.keep_pace(member, end).await {
                return Ok(Hearing::End);
            }
        }
    }
}

impl Default for Chat {
    fn default() -> Self {
        Self::new()
    }
}

/// A client's place in a room.
struct Place {
    room: Arc<Room>,
    member: Arc<Member>,
    writer: JoinHandle<io::Result<Parting>>,
}

impl Refusal {
    /// The message to the client.
    fn word(&self) -> &'static [u8] {
        match self {
            Self::Full => FULL,
            Self::Unavailable => UNAVAILABLE,
        }
    }
}

/// Why the chat reads no more lines from a member.
enum Hearing {
    End,
    TooLong,
    /// The last lines may or may not have reached the other servers.
    Unsaid,
}

/// How a member's writer ended.
enum Parting {
    /// All due lines have been delivered.
    Even,
    TooSlow,
    /// The room was cut off from the other servers.
    Cut,
}

/// Delivers the other members' lines to the member.
async fn write(room: Arc<Room>, member: Arc<Member>, mut output: TcpStream) -> io::Result<Parting> {
    let parting = deliver(&room, &member, &mut output).await;
    member.writer_ended();
    if !matches!(parting, Ok(Parting::Even)) {
        // The shutdown also ends the member's reader, which may be waiting.
        let _ = output.shutdown(Shutdown::Read).await;
    }
    parting
}

async fn deliver(room: &Room, member: &Arc<Member>, output: &mut TcpStream) -> io::Result<Parting> {
    let mut lines = format!("* you are {}\n", member.number()).into_bytes();
    loop {
        output.write_all(&lines).await?;
        match room.next(member, &mut lines).await {
            Next::Deliver => {}
            Next::End => return Ok(Parting::Even),
            Next::Overtaken => return Ok(Parting::TooSlow),
            Next::Cut => return Ok(Parting::Cut),
        }
    }
}
