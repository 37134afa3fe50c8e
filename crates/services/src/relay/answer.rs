//! The reply of an upstream on its way to the client: which part has come, without I/O.

use std::io::Write;

use super::flow::Flowed;
use super::head::{Malformed, Reply, Request, read_reply};
use super::limits::INTERIM_REPLIES;
use crate::http::Persistence;

/// A reply, of which some bytes have come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The final reply's head, once it has come.
    head: Option<Reply>,
    interim: u32,
    is_done: bool,
    /// The bytes of the body that are for the client.
    content: u64,
}

impl Answer {
    /// Takes the next bytes, and appends to `output` what the client gets of them. Returns how many
    /// bytes were taken. The rest must come again, with more, or does not belong to the reply.
    /// `persistence` is this side's wish for the client's connection.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        request: &Request,
        persistence: Persistence,
        output: &mut Vec<u8>,
    ) -> Result<usize, Malformed> {
        let mut taken = 0;
        while self.head.is_none() {
            let Some(reply) = read_reply(&bytes[taken..], request, persistence, output)? else {
                return Ok(taken);
            };
            taken += reply.length;
            if reply.is_interim() {
                self.interim += 1;
                if self.interim > INTERIM_REPLIES {
                    return Err(Malformed);
                }
                continue;
            }
            self.head = Some(reply);
        }
        if let Some(reply) = &mut self.head {
            if reply.gets_chunks {
                let content = &bytes[taken..];
                append_chunk(content, output);
                self.content += content.len() as u64;
                return Ok(bytes.len());
            }
            let before = output.len();
            match reply.body.pass(&bytes[taken..], request.is_old, output) {
                Flowed::All => taken = bytes.len(),
                Flowed::Finished(length) => {
                    taken += length;
                    self.is_done = true;
                }
                Flowed::Malformed => return Err(Malformed),
            }
            self.content += (output.len() - before) as u64;
        }
        Ok(taken)
    }

    /// Takes the end of the upstream's connection. Returns whether the reply is whole.
    pub(super) fn end(&mut self, output: &mut Vec<u8>) -> bool {
        if let Some(reply) = &self.head
            && reply.body.ends_by_close()
            && !self.is_done
        {
            self.is_done = true;
            if reply.gets_chunks {
                output.extend_from_slice(b"0\r\n\r\n");
            }
        }
        self.is_done
    }

    /// Whether an interim reply has come, or the final one: the upstream knows of the request.
    pub(super) fn has_spoken(&self) -> bool {
        self.interim > 0 || self.has_begun()
    }

    /// Whether both sides speak another protocol from now on.
    pub(super) fn has_switched(&self) -> bool {
        self.head.as_ref().is_some_and(|reply| reply.switches)
    }

    /// Whether the head of the final reply has come.
    pub(super) fn has_begun(&self) -> bool {
        self.head.is_some()
    }

    /// Whether the whole reply has come.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether the upstream keeps its connection after the whole reply.
    pub(super) fn upstream_stays(&self) -> bool {
        self.head.as_ref().is_some_and(|reply| reply.upstream_stays)
    }

    /// How the client's connection goes on.
    pub(super) fn persistence(&self) -> Persistence {
        self.head.as_ref().map_or(Persistence::Close, |reply| reply.persistence)
    }

    /// The status, and the bytes of the body.
    pub(super) fn summary(&self) -> (u16, u64) {
        (self.head.as_ref().map_or(0, |reply| reply.code), self.content)
    }
}

/// Appends a chunk with these bytes. None is none, since an empty chunk is the end of the body.
fn append_chunk(content: &[u8], output: &mut Vec<u8>) {
    if !content.is_empty() {
        write!(output, "{:x}\r\n", content.len()).expect("a vector takes every byte");
        output.extend_from_slice(content);
        output.extend_from_slice(b"\r\n");
    }
}
