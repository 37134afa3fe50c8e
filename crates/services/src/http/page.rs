//! The reply for one file. The usual head is built once and kept with the body. Other heads are
//! built for each request.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write as _,
    time::UNIX_EPOCH,
};

use duality_runtime::fs;

use super::{
    conditional::{Validators, Verdict},
    date,
    fields::Persistence,
    range::Part,
    reply::{self, Reply},
    request::{Method, Request},
    status,
};

/// A file as it is served.
pub struct Page {
    /// The status line and the header fields of a 200, without `Connection` and the empty line at
    /// the end. Each reply fills in the date.
    head: Vec<u8>,
    content_type: String,
    entity_tag: String,
    last_modified: u64,
    length: u64,
    content: Content,
}

/// The place of a page's bytes.
pub enum Content {
    /// The bytes are in memory.
    Memory(Cow<'static, [u8]>),
    /// The bytes are in this file.
    File(fs::File),
}

impl Page {
    /// A page of `length` bytes. `entity_tag` is in its quotes; `last_modified` counts seconds
    /// since 1 January 1970.
    pub(super) fn new(
        content_type: String,
        entity_tag: String,
        last_modified: u64,
        length: u64,
        content: Content,
    ) -> Self {
        let mut page =
            Page { head: Vec::new(), content_type, entity_tag, last_modified, length, content };
        let mut head = Vec::with_capacity(320);
        reply::start(&mut head, 200, "OK", 0);
        page.describe(&mut head, page.length);
        head.shrink_to_fit();
        page.head = head;
        page
    }

    /// The place of the bytes.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Whether the body is an open file.
    pub fn is_file(&self) -> bool {
        matches!(self.content, Content::File(_))
    }

    pub(super) fn validators(&self) -> Validators<'_> {
        Validators { entity_tag: &self.entity_tag, last_modified: self.last_modified }
    }

    /// The approximate number of bytes that the page keeps in memory.
    pub(super) fn footprint(&self) -> usize {
        let body = match &self.content {
            Content::Memory(bytes) => bytes.len(),
            Content::File(_) => 0,
        };
        let text = self.head.len() + self.content_type.len() + self.entity_tag.len();
        size_of::<Page>() + text + body
    }

    /// Writes the head of the reply to a request. Returns the part of the content that follows, if
    /// any.
    pub fn answer(
        &self,
        output: &mut Vec<u8>,
        request: &Request<'_>,
        persistence: Persistence,
        second: u64,
    ) -> Option<Part> {
        let is_get = request.method == Method::Get;
        let part = match request.conditions.judge(is_get, self.validators(), self.length) {
            Verdict::Whole => {
                self.write_head(output, second, persistence);
                Part { offset: 0, length: self.length }
            }
            Verdict::Part(part) => {
                self.write_part_head(output, second, persistence, part);
                part
            }
            Verdict::NotModified => {
                self.write_not_modified(output, second, persistence);
                return None;
            }
            Verdict::PreconditionFailed => {
                let refusal = Reply::from(&status::PRECONDITION_FAILED);
                refusal.write(output, second, persistence, !is_get);
                return None;
            }
            Verdict::RangeNotSatisfiable => {
                let refusal = Reply::from(&status::RANGE_NOT_SATISFIABLE)
                    .with("Content-Range", self.unsatisfied_range());
                refusal.write(output, second, persistence, !is_get);
                return None;
            }
        };
        is_get.then_some(part)
    }

    /// The head for the whole page. The server writes this head for every plain request.
    fn write_head(&self, output: &mut Vec<u8>, second: u64, persistence: Persistence) {
        let start = output.len();
        output.extend_from_slice(&self.head);
        output[start + DATE_OFFSET..][..date::LENGTH].copy_from_slice(&date::current(second));
        output.extend_from_slice(reply::ending(persistence));
    }

    /// The head for a part of the page.
    fn write_part_head(
        &self,
        output: &mut Vec<u8>,
        second: u64,
        persistence: Persistence,
        part: Part,
    ) {
        reply::start(output, 206, "Partial Content", second);
        self.describe(output, part.length);
        let (first, last) = (part.offset, part.offset + part.length - 1);
        let range = format!("Content-Range: bytes {first}-{last}/{}\r\n", self.length);
        output.extend_from_slice(range.as_bytes());
        output.extend_from_slice(reply::ending(persistence));
    }

    /// The head of a 304, which has no body.
    fn write_not_modified(&self, output: &mut Vec<u8>, second: u64, persistence: Persistence) {
        reply::start(output, status::NOT_MODIFIED.code, status::NOT_MODIFIED.reason, second);
        self.write_validators(output);
        output.extend_from_slice(reply::ending(persistence));
    }

    /// The `Content-Range` that goes with a 416.
    fn unsatisfied_range(&self) -> String {
        format!("bytes */{}", self.length)
    }

    fn describe(&self, output: &mut Vec<u8>, length: u64) {
        let content_type = &self.content_type;
        write!(output, "Content-Type: {content_type}\r\nContent-Length: {length}\r\n")
            .expect("a vector takes every byte");
        self.write_validators(output);
        output.extend_from_slice(b"Accept-Ranges: bytes\r\n");
    }

    fn write_validators(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(b"Last-Modified: ");
        output.extend_from_slice(&date::format(self.last_modified));
        output.extend_from_slice(b"\r\nETag: ");
        output.extend_from_slice(self.entity_tag.as_bytes());
        output.extend_from_slice(b"\r\n");
    }
}

/// The place of the date in the head of a 200.
const DATE_OFFSET: usize = b"HTTP/1.1 200 OK\r\nServer: duality\r\nDate: ".len();

/// The strong entity tag, in its quotes, of a file on disk. The tag is a hash, so that clients
/// cannot read its parts, such as the inode. All processes of one program make the same tag.
///
/// A file that is written twice within one tick of the file system's clock, without a change of
/// length, keeps its tag. Every server that does not read the whole file has this limit.
pub(super) fn entity_tag(metadata: &fs::Metadata) -> String {
    let modified = metadata.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (modified.as_nanos(), metadata.length, metadata.inode).hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_tag_depends_on_all_that_it_is_made_of_and_shows_none_of_it() {
        let metadata = |inode, length, nanoseconds| {
            let modified = UNIX_EPOCH + Duration::from_nanos(nanoseconds);
            entity_tag(&fs::Metadata { kind: fs::Kind::File, length, modified, inode, device: 1 })
        };
        let tag = metadata(0xabcdef, 10, 1_795_219_200_000_000_001);
        assert_eq!(tag, metadata(0xabcdef, 10, 1_795_219_200_000_000_001));
        assert!(tag.len() == 18 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
        assert!(!tag.contains("abcdef"), "{tag}");
        for other in [
            metadata(0xabcdee, 10, 1_795_219_200_000_000_001),
            metadata(0xabcdef, 11, 1_795_219_200_000_000_001),
            metadata(0xabcdef, 10, 1_795_219_200_000_000_002),
            metadata(10, 0xabcdef, 1_795_219_200_000_000_001),
        ] {
            assert_ne!(tag, other);
        }
    }

    fn page() -> Page {
        let content = Content::Memory(Cow::Borrowed(b"0123456789"));
        Page::new("text/plain".to_owned(), "\"tag\"".to_owned(), 784_111_777, 10, content)
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut output = b"before".to_vec();
        write(&mut output);
        String::from_utf8(output.split_off(6)).unwrap()
    }

    #[test]
    fn heads_are_byte_for_byte_as_expected() {
        let common = "Server: duality\r\nDate: Thu, 01 Jan 1970 00:00:07 GMT\r\n";
        let validators = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"tag\"\r\n";
        assert_eq!(
            text(|output| page().write_head(output, 7, Persistence::Implied)),
            format!(
                "HTTP/1.1 200 OK\r\n{common}Content-Type: text/plain\r\nContent-Length: 10\r\n\
                 {validators}Accept-Ranges: bytes\r\n\r\n"
            )
        );
        let part = Part { offset: 2, length: 3 };
        assert_eq!(
            text(|output| page().write_part_head(output, 7, Persistence::Close, part)),
            format!(
                "HTTP/1.1 206 Partial Content\r\n{common}Content-Type: text/plain\r\n\
                 Content-Length: 3\r\n{validators}Accept-Ranges: bytes\r\n\
                 Content-Range: bytes 2-4/10\r\nConnection: close\r\n\r\n"
            )
        );
        assert_eq!(
            text(|output| page().write_not_modified(output, 7, Persistence::Announced)),
            format!(
                "HTTP/1.1 304 Not Modified\r\n{common}{validators}Connection: keep-alive\r\n\r\n"
            )
        );
        assert_eq!(page().unsatisfied_range(), "bytes */10");
    }
}
