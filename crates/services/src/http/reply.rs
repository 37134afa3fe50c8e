//! The beginning and the end of every reply, and whole replies that are made for one request:
//! errors, redirects, and the pages of [`Pages`](super::Pages).

use std::io::Write;

use super::{
    date,
    fields::Persistence,
    request::Method,
    status::{self, Status},
};

/// A reply without a file. The server adds `Server`, `Date`, `Content-Length` and `Connection` when
/// it writes the reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// How the request went.
    pub status: &'static Status,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// Further header fields: names and values.
    pub fields: Vec<(&'static str, String)>,
    /// The content. The reply to a HEAD leaves the content out.
    pub body: Vec<u8>,
}

impl Reply {
    /// A page of HTML.
    #[must_use]
    pub fn html(status: &'static Status, text: String) -> Self {
        let content_type = "text/html; charset=utf-8";
        Reply { status, content_type, fields: Vec::new(), body: text.into_bytes() }
    }

    /// The status, with a small page that explains it to a person.
    #[must_use]
    pub fn explained(status: &'static Status) -> Self {
        Self::because(status, status.explanation)
    }

    /// The status, with a small page that gives this explanation, in HTML.
    #[must_use]
    pub fn because(status: &'static Status, explanation: &str) -> Self {
        let Status { code, reason, .. } = status;
        let text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <title>{code} {reason}</title>\n<h1>{code} {reason}</h1>\n<p>{explanation}</p>\n"
        );
        Reply::html(status, text)
    }

    /// The same reply with one more header field. Its value has no control characters.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        debug_assert!(!value.bytes().any(|byte| byte.is_ascii_control()), "{name}: {value:?}");
        self.fields.push((name, value));
        self
    }

    /// The reply to OPTIONS, or to a method that is not allowed. The reply is the same for all
    /// targets that allow the methods `allow`. `None` for a GET or HEAD.
    pub(super) fn to_method(method: Method, allow: &'static str) -> Option<Self> {
        match method {
            Method::Get | Method::Head => None,
            Method::Options => Some(Reply::html(&status::OK, String::new()).with("Allow", allow)),
            Method::Post | Method::Connect | Method::Known => {
                Some(Reply::explained(&status::METHOD_NOT_ALLOWED).with("Allow", allow))
            }
            Method::Unknown => Some(Reply::explained(&status::NOT_IMPLEMENTED)),
        }
    }

    /// Writes the whole reply, or only its head if `is_head`.
    pub fn write(
        &self,
        output: &mut Vec<u8>,
        second: u64,
        persistence: Persistence,
        is_head: bool,
    ) {
        self.write_head(output, second, persistence);
        if !is_head {
            output.extend_from_slice(&self.body);
        }
    }

    /// Writes the status line and the header fields.
    pub fn write_head(&self, output: &mut Vec<u8>, second: u64, persistence: Persistence) {
        start(output, self.status.code, self.status.reason, second);
        for (name, value) in &self.fields {
            write!(output, "{name}: {value}\r\n").expect("a vector takes every byte");
        }
        // An empty body has no content type.
        if !self.body.is_empty() {
            let content_type = self.content_type;
            write!(output, "Content-Type: {content_type}\r\n").expect("a vector takes every byte");
        }
        let length = self.body.len();
        write!(output, "Content-Length: {length}\r\n").expect("a vector takes every byte");
        output.extend_from_slice(ending(persistence));
    }
}

impl From<&'static Status> for Reply {
    fn from(status: &'static Status) -> Self {
        Reply::explained(status)
    }
}

/// Tells a client to send its body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Writes the status line, the server's name and the date.
pub(super) fn start(output: &mut Vec<u8>, code: u16, reason: &str, second: u64) {
    write!(output, "HTTP/1.1 {code} {reason}\r\nServer: duality\r\nDate: ")
        .expect("a vector takes every byte");
    output.extend_from_slice(&date::current(second));
    output.extend_from_slice(b"\r\n");
}

/// The end of a head: whether the connection stays, if that must be stated, and the empty line.
pub(super) fn ending(persistence: Persistence) -> &'static [u8] {
    match persistence {
        Persistence::Implied => b"\r\n",
        Persistence::Announced => b"Connection: keep-alive\r\n\r\n",
        Persistence::Close => b"Connection: close\r\n\r\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(reply: &Reply) -> String {
        let mut output = Vec::new();
        reply.write_head(&mut output, 0, Persistence::Close);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_refusal_is_a_whole_reply() {
        let refusal = Reply::to_method(Method::Post, "GET, HEAD").unwrap();
        let head = head(&refusal);
        assert!(head.starts_with("HTTP/1.1 405 Method Not Allowed\r\nServer: duality\r\nDate: "));
        assert!(head.contains("\r\nAllow: GET, HEAD\r\n"));
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", refusal.body.len())));
        assert!(head.ends_with("\r\nConnection: close\r\n\r\n"));
        assert!(String::from_utf8(refusal.body).unwrap().contains("does not offer the method"));
    }

    #[test]
    fn the_reply_to_options_says_that_it_has_no_content() {
        let head = head(&Reply::to_method(Method::Options, "GET").unwrap());
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(head.contains("\r\nAllow: GET\r\nContent-Length: 0\r\n"), "{head}");
        assert!(!head.contains("Content-Type"), "{head}");
    }
}
