//! The beginning and the end that all replies have, and the whole of those that carry no file.

use std::io::Write;

use super::{date, request::Persistence, status::Status};

/// A header field that a reply has beyond the usual ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extra {
    pub(super) name: &'static str,
    pub(super) value: String,
}

/// A reply without a file: an error or a redirect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: &'static Status,
    pub(super) extra: Option<Extra>,
}

impl From<&'static Status> for Refusal {
    fn from(status: &'static Status) -> Self {
        Refusal { status, extra: None }
    }
}

impl Refusal {
    /// With one more header field.
    pub(super) fn with(status: &'static Status, extra: Extra) -> Self {
        Refusal { status, extra: Some(extra) }
    }

    /// Writes the reply: a head and, unless the request was a HEAD, a small page for a person.
    pub(super) fn write(
        &self,
        output: &mut Vec<u8>,
        second: u64,
        persistence: Persistence,
        with_body: bool,
    ) {
        let Status { code, reason, explanation } = self.status;
        let body = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <title>{code} {reason}</title>\n<h1>{code} {reason}</h1>\n<p>{explanation}</p>\n"
        );
        start(output, *code, reason, second);
        if let Some(Extra { name, value }) = &self.extra {
            write!(output, "{name}: {value}\r\n").expect("a vector takes every byte");
        }
        let length = body.len();
        write!(output, "Content-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n")
            .expect("a vector takes every byte");
        output.extend_from_slice(ending(persistence));
        if with_body {
            output.extend_from_slice(body.as_bytes());
        }
    }
}

/// Writes the status line, the server's name and the date.
pub(super) fn start(output: &mut Vec<u8>, code: u16, reason: &str, second: u64) {
    write!(output, "HTTP/1.1 {code} {reason}\r\nServer: duality\r\nDate: ")
        .expect("a vector takes every byte");
    output.extend_from_slice(&date::current(second));
    output.extend_from_slice(b"\r\n");
}

/// What a head ends with: the fate of the connection, where it has to be said, and the empty line.
pub(super) fn ending(persistence: Persistence) -> &'static [u8] {
    match persistence {
        Persistence::Implied => b"\r\n",
        Persistence::Announced => b"Connection: keep-alive\r\n\r\n",
        Persistence::Close => b"Connection: close\r\n\r\n",
    }
}

#[cfg(test)]
mod tests {
    use super::{super::status, *};

    #[test]
    fn a_refusal_is_a_whole_reply() {
        let extra = Extra { name: "Allow", value: "GET, HEAD".to_owned() };
        let refusal = Refusal::with(&status::METHOD_NOT_ALLOWED, extra);
        let mut output = Vec::new();
        refusal.write(&mut output, 0, Persistence::Close, true);
        let text = String::from_utf8(output.clone()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 405 Method Not Allowed\r\nServer: duality\r\nDate: "));
        assert!(head.contains("\r\nAllow: GET, HEAD\r\n"));
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())));
        assert!(head.ends_with("\r\nConnection: close"));
        assert!(body.contains("GET and HEAD only"));

        let mut without_body = Vec::new();
        refusal.write(&mut without_body, 0, Persistence::Close, false);
        assert_eq!(without_body, output[..output.len() - body.len()]);
    }
}
