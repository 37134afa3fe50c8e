//! Output on its way to an http client: gathered replies that leave together, and the long page or
//! file that may follow them.

use std::io;
use std::time::Instant;

use duality_services::http::parts::{
    Content, GATHERED, Memo, Method, Page, Part, Persistence, Request,
};
use duality_services::http::{Limits, Reply};

use crate::Next;
use crate::attempts::Attempts;

/// The replies of one connection that have not left yet.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) gathered: Vec<u8>,
    /// The last read took all present bytes, and nothing has been sent since.
    pub(crate) is_quiet: bool,
    /// The kernel knows for how long the client may take nothing.
    is_watched: bool,
    /// How many of the gathered bytes have left.
    sent: usize,
    tail: Tail,
    /// The deadline for all bytes, set when some did not leave at once.
    deadline: Option<Option<Instant>>,
    /// The deadline for the next bytes.
    patience: Option<Option<Instant>>,
}

/// Bytes after the gathered ones, too many to be copied.
#[derive(Default)]
enum Tail {
    #[default]
    Nothing,
    /// The rest of a body that was made for one request, and how much of it has left.
    Made(Vec<u8>, usize),
    /// The rest of a part of the page in the connection's memo.
    Page(Part),
}

impl Output {
    /// Uses the memory of `spare`, unless this output already has memory.
    pub(crate) fn borrow_from(&mut self, spare: &mut Vec<u8>) {
        if self.gathered.capacity() == 0 {
            std::mem::swap(&mut self.gathered, spare);
        }
    }

    /// Gives the memory back to `spare` if all bytes have left.
    pub(crate) fn give_back_to(&mut self, spare: &mut Vec<u8>) {
        if self.gathered.is_empty() && self.gathered.capacity() > 0 {
            *spare = std::mem::take(&mut self.gathered);
        }
    }

    /// Whether all bytes have left.
    pub(crate) fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// Whether the output must be sent before more is added.
    pub(crate) fn is_much(&self) -> bool {
        self.gathered.len() >= GATHERED || !matches!(self.tail, Tail::Nothing)
    }

    /// Adds the reply to a request for the memo's page, or for a part of it.
    pub(crate) fn page(
        &mut self,
        page: &Page,
        request: &Request<'_>,
        persistence: Persistence,
        now: u64,
    ) {
        let Some(part) = page.answer(&mut self.gathered, request, persistence, now) else { return };
        match page.content() {
            Content::Memory(bytes) if self.has_room(part.length as usize) => {
                self.gathered.extend_from_slice(part.of(bytes));
            }
            _ => self.tail = Tail::Page(part),
        }
    }

    /// Adds a reply that was made for one request.
    pub(crate) fn reply(
        &mut self,
        reply: Reply,
        request: &Request<'_>,
        persistence: Persistence,
        now: u64,
    ) {
        let is_head = request.method == Method::Head;
        if is_head || self.has_room(reply.body.len()) {
            reply.write(&mut self.gathered, now, persistence, is_head);
        } else {
            reply.write_head(&mut self.gathered, now, persistence);
            self.tail = Tail::Made(reply.body, 0);
        }
    }

    /// Sends all output. If bytes are left, returns the wait, or the error.
    pub(crate) fn send<F>(
        &mut self,
        attempts: &mut Attempts<'_>,
        memo: &mut Memo,
        limits: &Limits,
    ) -> Result<(), Next<F>> {
        while self.left() > 0 {
            let Some(count) = self.send_some(attempts, memo)? else {
                if !std::mem::replace(&mut self.is_watched, true) {
                    attempts.set_taking_limit(limits.write_time);
                }
                let next = *self.patience.get_or_insert_with(|| attempts.after(limits.write_time));
                let earliest = [next, self.deadline.flatten()].into_iter().flatten().min();
                return Err(Next::Write(earliest));
            };
            // The file has become shorter than the reply's head said.
            if count == 0 {
                return Err(Next::Failed(io::ErrorKind::UnexpectedEof.into()));
            }
            self.advance(count);
            (self.patience, self.is_quiet) = (None, false);
            let left = self.left();
            if left > 0 && self.deadline.is_none() {
                self.deadline = Some(attempts.after(limits.sending_time(left)));
            }
        }
        if !self.gathered.is_empty() {
            self.gathered.clear();
            (self.sent, self.tail, self.deadline) = (0, Tail::Nothing, None);
            // Otherwise an idle connection would hold two descriptors.
            memo.release_file();
        }
        Ok(())
    }

    /// Sends all output together with the end of our side, in one packet. True: the connection may
    /// be closed. False: it has to linger.
    pub(crate) fn send_last<F>(&mut self, attempts: &mut Attempts<'_>) -> Result<bool, Next<F>> {
        let is_short = !self.gathered.is_empty() && matches!(self.tail, Tail::Nothing);
        if !(self.is_quiet && is_short) {
            return Ok(false);
        }
        self.is_quiet = false;
        self.advance(attempts.write_last(&self.gathered)?.unwrap_or(0));
        Ok(self.is_empty())
    }

    fn send_some<F>(
        &mut self,
        attempts: &mut Attempts<'_>,
        memo: &Memo,
    ) -> Result<Option<usize>, Next<F>> {
        let gathered = &self.gathered[self.sent..];
        Ok(match (&self.tail, memo.page().map(Page::content)) {
            (Tail::Nothing, _) => attempts.write(gathered)?,
            (Tail::Made(body, sent), _) => attempts.write_both(gathered, &body[*sent..])?,
            (Tail::Page(part), Some(Content::Memory(bytes))) => {
                attempts.write_both(gathered, part.of(bytes))?
            }
            (Tail::Page(_), Some(Content::File(_))) if !gathered.is_empty() => {
                attempts.write(gathered)?
            }
            (Tail::Page(part), Some(Content::File(file))) => {
                attempts.send_file(file, part.offset, part.length)?
            }
            // The memo keeps the page while a tail of the page is left.
            (Tail::Page(_), None) => return Err(Next::End),
        })
    }

    fn advance(&mut self, count: usize) {
        let of_gathered = count.min(self.gathered.len() - self.sent);
        self.sent += of_gathered;
        let of_tail = count - of_gathered;
        match &mut self.tail {
            Tail::Nothing => {}
            Tail::Made(_, sent) => *sent += of_tail,
            Tail::Page(part) => {
                part.offset += of_tail as u64;
                part.length -= of_tail as u64;
            }
        }
    }

    /// How many bytes are left to send.
    fn left(&self) -> u64 {
        let of_tail = match &self.tail {
            Tail::Nothing => 0,
            Tail::Made(body, sent) => (body.len() - sent) as u64,
            Tail::Page(part) => part.length,
        };
        (self.gathered.len() - self.sent) as u64 + of_tail
    }

    fn has_room(&self, length: usize) -> bool {
        self.gathered.len() + length <= GATHERED
    }
}
