//! The access log's record of a request, under the names of the format in docs/operations.md.

/// The most bytes of a target. A line then fits into one atomic write to a pipe.
const LONGEST: usize = 3500;

/// A request, as far as the log tells of it.
#[derive(Clone, Copy)]
pub(crate) struct Logged<'h> {
    /// The head, empty if it could not be read.
    pub(crate) head: &'h [u8],
    /// More members of the log's object. May be empty.
    pub(crate) note: &'h str,
}

impl<'h> Logged<'h> {
    /// A request with this head.
    pub(crate) fn of(head: &'h [u8]) -> Self {
        Self { head, note: "" }
    }

    /// Members of a JSON object: the method, the target, the status, the bytes of the body, the
    /// protocol, and the note.
    ///
    /// `reply` begins with the head of the reply. The rest of `reply` is content, and `more` bytes
    /// of content follow.
    pub(super) fn members(self, reply: &[u8], more: u64) -> String {
        let Self { head, note } = self;
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let mut words = line.split(|&byte| byte == b' ').map(escaped);
        let mut word = || words.next().unwrap_or_default();
        let (method, target, protocol) = (word(), word(), word());
        // "HTTP/1.1 200 OK"
        let status = reply.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
        let status = status.and_then(|code| code.parse::<u16>().ok()).unwrap_or(0);
        let end = memchr::memmem::find(reply, b"\r\n\r\n").map_or(reply.len(), |end| end + 4);
        let bytes = (reply.len() - end) as u64 + more;
        let comma = if note.is_empty() { "" } else { "," };
        format!(
            r#""m":"{method}","u":"{target}","s":{status},"b":{bytes},"p":"{protocol}"{comma}{note}"#
        )
    }
}

/// Text within the quotes of JSON, cut after [`LONGEST`] bytes.
fn escaped(text: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for &byte in text {
        if escaped.len() >= LONGEST {
            break;
        }
        match byte {
            b'"' | b'\\' => escaped.extend(['\\', byte.into()]),
            b' '..=b'~' => escaped.push(byte.into()),
            // The parser refuses all other bytes.
            _ => escaped.push('?'),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_described() {
        let head = b"GET /a?b=\"c\\d\" HTTP/1.1\r\nHost: x\r\n\r\n";
        let reply = b"HTTP/1.1 206 Partial Content\r\nServer: duality\r\n\r\n12345";
        assert_eq!(
            Logged::of(head).members(reply, 10),
            r#""m":"GET","u":"/a?b=\"c\\d\"","s":206,"b":15,"p":"HTTP/1.1""#
        );
    }

    #[test]
    fn what_cannot_be_read_is_empty() {
        let reply = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        assert_eq!(Logged::of(b"").members(reply, 0), r#""m":"","u":"","s":400,"b":0,"p":"""#);
    }

    #[test]
    fn a_note_follows() {
        let logged = Logged { head: b"GET / HTTP/1.1\r\n", note: r#""up":"a""# };
        let members = logged.members(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", 0);
        assert!(members.ends_with(r#""s":502,"b":0,"p":"HTTP/1.1","up":"a""#), "{members}");
    }

    #[test]
    fn a_long_target_is_cut() {
        let head = format!("GET /{} HTTP/1.1\r\n", "\"".repeat(9000));
        assert!(Logged::of(head.as_bytes()).members(b"", 0).len() < LONGEST + 100);
    }
}
