//! Right chat requests. Two clients talk in a room with all other clients. Each receives all lines
//! of the other client, in order, and none of its own lines.

use std::io;

use duality_lab::random::SplitMix64;
use duality_lab::{Blame as _, Party};

use super::client::{Client, connect, unsent};
use super::question::printable;
use super::wire::Wire;
use super::{Result, wrong};

/// The way in which a client sends its lines.
type Send = fn(&mut Wire, &[u8], &mut Client<'_>) -> io::Result<()>;

/// A member of the room.
struct Talker {
    wire: Wire,
    /// The text that begins the talker's lines.
    label: Vec<u8>,
}

/// Two clients enter. The first talks, and then the second.
pub(super) fn talk(client: &mut Client<'_>, send: Send) -> Result {
    let [mut ann, mut bob] = [Talker::enter(client)?, Talker::enter(client)?];
    ann.says_to(&mut bob, send, client)?;
    bob.says_to(&mut ann, send, client)
}

/// Two clients enter. The first talks and ends its side. The second receives all lines, and the
/// first sees the end.
pub(super) fn leave(client: &mut Client<'_>) -> Result {
    let [mut ann, mut bob] = [Talker::enter(client)?, Talker::enter(client)?];
    ann.says_to(&mut bob, |wire, lines, _| wire.send(lines), client)?;
    ann.wire.half_close().map_err(unsent)?;
    // The lines of other clients come as well.
    let heard = ann.wire.into_rest(64 << 20);
    let heard = heard.blame_at(Party::Subject, "instead of the end of the connection")?;
    match heard.split(|&byte| byte == b'\n').any(|line| line.starts_with(&ann.label)) {
        true => Err(wrong("a client heard itself")),
        false => Ok(()),
    }
}

impl Talker {
    fn enter(client: &mut Client<'_>) -> Result<Self> {
        let mut wire = connect(client)?;
        let greeting = wire.until(b"\n").blame_at(Party::Subject, "no greeting")?;
        let number = greeting.strip_prefix(b"* you are ").and_then(|rest| rest.strip_suffix(b"\n"));
        let number = number.filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let number = number.ok_or_else(|| {
            wrong(format_args!("{:?} is no greeting", String::from_utf8_lossy(&greeting)))
        })?;
        let label = [number, b"> "].concat();
        Ok(Self { wire, label })
    }

    fn says_to(&mut self, other: &mut Self, send: Send, client: &mut Client<'_>) -> Result {
        let lines: Vec<_> = (0..=client.below(10)).map(|_| line(&mut client.random)).collect();
        send(&mut self.wire, &lines.concat(), client).map_err(unsent)?;
        for line in lines {
            let heard = other.hears(&self.label)?;
            if heard != line {
                let [line, heard] =
                    [line, heard].map(|text| String::from_utf8_lossy(&text).into_owned());
                return Err(wrong(format_args!("{line:?} was said, and {heard:?} heard")));
            }
        }
        Ok(())
    }

    /// The next line of the client with this label, without the label.
    fn hears(&mut self, label: &[u8]) -> Result<Vec<u8>> {
        loop {
            let line = self.wire.until(b"\n").blame_at(Party::Subject, "not heard")?;
            if line.starts_with(&self.label) {
                return Err(wrong("a client heard itself"));
            }
            if let Some(said) = line.strip_prefix(label) {
                return Ok(said.to_vec());
            }
            // The number of the speaker stands before each line.
            let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 || !line[digits..].starts_with(b"> ") {
                let line = String::from_utf8_lossy(&line);
                return Err(wrong(format_args!("{line:?} is no line of chat")));
            }
        }
    }
}

fn line(random: &mut SplitMix64) -> Vec<u8> {
    let length = 1 + random.below(200) as usize;
    let mut line = printable(random, length);
    line.push(b'\n');
    line
}
