//! The blocks service: a request of five stages. Two stages use a file, and one computes (Truppel &
//! Abreu, section II).
//!
//! ```text
//!   receive ──▶ read ──────────▶ xor ──────▶ write ─────────▶ send
//!   8 bytes     80 KB from the   of all      the byte at the  the byte, and
//!               offset they say  its bytes   same offset      the end
//! ```
//!
//! A connection carries one request: a number of 8 bytes, little-endian. The offset is that number
//! modulo the number of offsets at which the file holds a whole read. The reply is one byte, and
//! then the connection ends.
//!
//! As in the original, there is no lock, so overlapping requests read what others write. A client
//! gets no reply if it sends fewer than 8 bytes, or nothing for 60 seconds.

use std::{io, time::Duration};

use duality_runtime::{fs::File, net::TcpStream, task};

use crate::{
    Entry, Setting, Setup, SetupError,
    line::{PATIENCE, bound_patience},
    shared,
};

/// The blocks service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "blocks",
    summary: "reads 80 KB of a file, combines them to a byte, and writes that back",
    protocol: "8 bytes in, 1 byte out, see docs/protocols.md",
    open: |setup| {
        Ok(shared(Blocks::open(setup)?, |blocks, stream| async move { blocks.serve(stream).await }))
    },
    settings: &[Setting::Data, Setting::DataSize, Setting::ReadSize],
    persistent: false,
    injectable: true,
    ..Entry::PLAIN
};

/// Bytes in the file that the service makes if no file is named.
const DATA_SIZE: u64 = 1_000_000;

/// Bytes that a request reads.
const READ_SIZE: u64 = 80_000;

/// The most bytes that a request may read. Each request under way has a buffer of that size.
const LARGEST_READ: u64 = 1 << 30;

/// The time that a client may stay silent.
const SILENCE: Duration = Duration::from_secs(60);

/// The blocks service; clones share the file.
#[derive(Clone, Debug)]
pub struct Blocks {
    file: File,
    /// The number of offsets.
    places: u64,
    read_size: usize,
}

impl Blocks {
    /// Opens the file, or makes one.
    ///
    /// # Errors
    ///
    /// The file does not exist, or is shorter than a read.
    pub fn open(setup: &Setup) -> Result<Self, SetupError> {
        let wrong = |flags, error| SetupError::Choice { flags, error };
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        let read_size = setup.read_size.unwrap_or(READ_SIZE);
        if !(1..=LARGEST_READ).contains(&read_size) {
            let message = format!("{read_size} bytes: give 1 to {LARGEST_READ}");
            return Err(wrong("--read-size", invalid(message)));
        }
        let (flags, file, size) = match &setup.data {
            Some(path) => {
                let named = |error: io::Error| {
                    let message = format!("{}: {error}", path.display());
                    wrong("--data", io::Error::new(error.kind(), message))
                };
                let file = File::open_to_write(path).map_err(named)?;
                let length = file.length().map_err(named)?;
                ("--data", file, setup.data_size.map_or(length, |most| most.min(length)))
            }
            None => {
                let size = setup.data_size.unwrap_or(DATA_SIZE);
                let file =
                    File::temporary(&content(size)).map_err(|error| wrong("--data-size", error))?;
                ("--data-size", file, size)
            }
        };
        let Some(last) = size.checked_sub(read_size) else {
            let message = format!(
                "a file of {size} bytes has no {read_size} to read: give a larger one, or less by --read-size"
            );
            return Err(wrong(flags, invalid(message)));
        };
        Ok(Self { file, places: last + 1, read_size: read_size as usize })
    }

    /// Answers the request of one connection.
    ///
    /// # Errors
    ///
    /// The connection broke, or the file cannot be read or written.
    pub async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        task::stage("blocks: receive").await;
        stream.set_read_timeout(Some(SILENCE))?;
        bound_patience(&mut stream, PATIENCE)?;
        let Some(number) = receive(&mut stream).await? else { return Ok(()) };
        stream.begin_request();
        let offset = number % self.places;
        task::stage("blocks: read").await;
        let bytes = self.file.read_at(offset, self.read_size).await?;
        task::stage("blocks: xor").await;
        let byte = combine(&bytes);
        drop(bytes);
        task::stage("blocks: write").await;
        self.file.write_at(offset, [byte]).await?;
        task::stage("blocks: send").await;
        let sent = stream.write_last(&[byte]).await?;
        stream.write_all(&[byte][sent..]).await?;
        stream.end_request();
        Ok(())
    }
}

/// The number that the client sends. `None` if it sends fewer bytes, or nothing for too long.
async fn receive(stream: &mut TcpStream) -> io::Result<Option<u64>> {
    let mut number = [0; 8];
    let mut filled = 0;
    while filled < number.len() {
        match stream.read(&mut number[filled..]).await {
            Ok(0) => return Ok(None),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(u64::from_le_bytes(number)))
}

/// The exclusive or of all bytes.
fn combine(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |byte, next| byte ^ next)
}

/// The content of the data file if no file is named: bytes that look random, the same in each
/// server (xorshift64, Marsaglia 2003).
fn content(size: u64) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(size as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_count() {
        assert_eq!(combine(&[]), 0);
        assert_eq!(combine(&[0b1010, 0b0110, 0b0001]), 0b1101);
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_one_line() {
        let refused = |setup: &Setup| Blocks::open(setup).unwrap_err().to_string();
        let message = refused(&Setup { data_size: Some(79_999), ..Setup::default() });
        assert!(
            message.starts_with("--data-size: a file of 79999 bytes has no 80000"),
            "{message}"
        );
        let message = refused(&Setup { read_size: Some(0), ..Setup::default() });
        assert!(message.starts_with("--read-size: 0 bytes"), "{message}");
        let message = refused(&Setup { data: Some("/nowhere".into()), ..Setup::default() });
        assert!(message.starts_with("--data: /nowhere: "), "{message}");
        let least = Setup { data_size: Some(10), read_size: Some(10), ..Setup::default() };
        assert_eq!(Blocks::open(&least).unwrap().places, 1);
    }
}
