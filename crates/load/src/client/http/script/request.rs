//! One request as its user describes it, and the bytes of the request.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::super::Page;
use super::super::head::Asked;
use super::template::Template;
use super::values::{Row, Values};
use duality_trace::Mistake;

/// The most bytes of a body, the most bytes of the rest of a request, and the most headers.
const LONGEST_BODY: usize = 64 << 20;
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 100;

/// Headers that follow from the body.
const OF_BODY: [&str; 2] = ["content-length", "transfer-encoding"];

/// One request. The path, the header values and the body may have placeholders for [`Values`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The request target: an absolute path, with a query if there is one.
    pub path: String,
    /// The headers, in addition to those of each request. A header of the user's replaces a default
    /// one of the same name.
    pub headers: Vec<Header>,
    /// The body. `None` means no body. Then the request declares a length only if the method
    /// implies a body.
    pub body: Option<Vec<u8>>,
}

/// The method of a request, such as `GET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method(String);

/// A header of a request. The value of a header has no line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    name: String,
    value: String,
}

impl Request {
    /// The most bytes of a body.
    pub const LONGEST_BODY: usize = LONGEST_BODY;

    /// A GET of a path.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::default(), path: path.into(), headers: Vec::new(), body: None }
    }
}

impl Default for Method {
    fn default() -> Self {
        Self("GET".to_owned())
    }
}

impl FromStr for Method {
    type Err = Mistake;

    /// Reads a method: a token (RFC 9110, section 5.6.2), except CONNECT.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        if !is_token(text) || text.len() > 100 {
            return Err(
                format!("{:?} is no method: write one such as GET or POST", shown(text)).into()
            );
        }
        if text == "CONNECT" {
            return Err("CONNECT makes no request but a tunnel: choose another method".into());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Header {
    /// A header with this name and value. Blanks around the value do not count.
    ///
    /// # Errors
    ///
    /// The name is not a token, or it follows from the body. The value has a line end or another
    /// control character.
    pub fn new(name: &str, value: &str) -> Result<Self, Mistake> {
        if !is_token(name) {
            return Err(format!("{:?} is no name of a header", shown(name)).into());
        }
        if OF_BODY.iter().any(|header| name.eq_ignore_ascii_case(header)) {
            return Err(format!("{name} follows from the body: leave it out").into());
        }
        let value = value.trim_matches([' ', '\t']);
        match out_of_place(value.as_bytes()) {
            Some(problem) => Err(format!("the header {name}: {problem}").into()),
            None => Ok(Self { name: name.to_owned(), value: value.to_owned() }),
        }
    }

    /// The credentials of basic authentication (RFC 7617), from `NAME:PASSWORD`.
    ///
    /// # Errors
    ///
    /// The password is missing, or the text has a control character.
    pub fn basic(credentials: &str) -> Result<Self, Mistake> {
        // The message does not repeat a possible secret.
        if !credentials.contains(':') || credentials.chars().any(char::is_control) {
            return Err("write NAME:PASSWORD, without line ends".into());
        }
        Self::new("Authorization", &format!("Basic {}", BASE64.encode(credentials)))
    }

    /// The name as written.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for Header {
    type Err = Mistake;

    /// Reads `Name: value`.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| format!("{:?} is no header: write Name: value", shown(text)))?;
        Self::new(name, value)
    }
}

/// The first character that a header's value cannot have, and its place, if there is one.
fn out_of_place(value: &[u8]) -> Option<Mistake> {
    let wrong = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    let at = value.iter().position(wrong)?;
    let name = match value[at] {
        b'\r' | b'\n' => "a line end",
        _ => "a control character",
    };
    Some(format!("{name} after byte {at} of the value: take it out").into())
}

/// The first character that a path cannot have, if there is one.
fn out_of_path(path: &[u8]) -> Option<Mistake> {
    let wrong = path.iter().find(|byte| !byte.is_ascii_graphic() || **byte == b'#')?;
    Some(format!("{:?} must be percent-encoded in a path", char::from(*wrong)).into())
}

/// A token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

/// The beginning of a text, for a message.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// A checked request, split at its placeholders.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    method: String,
    path: Template,
    headers: Vec<(String, Template)>,
    body: Option<Template>,
}

impl Draft {
    /// A GET of the path of a page, which has been checked.
    pub(super) fn plain_get(path: &str) -> Self {
        let path = Template::plain(path.as_bytes());
        Self { method: Method::default().0, path, headers: Vec::new(), body: None }
    }

    /// Checks a request, with all `values` if there are some.
    ///
    /// # Errors
    ///
    /// The mistake in the request, and its line in the values if the mistake is there.
    pub(super) fn new(request: &Request, values: Option<&Values>) -> Result<Self, Mistake> {
        let read = |text: &[u8]| match values {
            Some(values) => Template::parse(text, &values.columns),
            None => Ok(Template::plain(text)),
        };
        if request.headers.len() > MOST_HEADERS {
            return Err(format!("more than {MOST_HEADERS} headers").into());
        }
        if !request.path.starts_with('/') {
            return Err(format!("{:?} is no path: begin it with /", shown(&request.path)).into());
        }
        let path = read(request.path.as_bytes())?;
        if let Some(problem) = path.texts().find_map(out_of_path) {
            return Err(problem);
        }
        let header = |header: &Header| Ok((header.name.clone(), read(header.value.as_bytes())?));
        let headers = request.headers.iter().map(header).collect::<Result<Vec<_>, Mistake>>()?;
        let body = request.body.as_deref().map(read).transpose()?;
        let draft = Self { method: request.method.0.clone(), path, headers, body };
        let nothing = Row { line: 0, cells: Vec::new() };
        let rows = values.map_or(std::slice::from_ref(&nothing), |values| values.rows.as_slice());
        for row in rows {
            draft.check(row, values)?;
        }
        Ok(draft)
    }

    /// Checks the request with the values of a row.
    fn check(&self, row: &Row, values: Option<&Values>) -> Result<(), Mistake> {
        let place = |column: usize| {
            let name = values.map_or("", |values| &values.columns[column]);
            format!("line {} of the values, column {name}", row.line)
        };
        let wrong = |column: usize, judge: fn(&[u8]) -> Option<Mistake>| {
            let mistake = judge(&row.cells[column])?;
            Some(format!("{}: {mistake}", place(column)).into())
        };
        if let Some(problem) = self.path.columns().find_map(|column| wrong(column, out_of_path)) {
            return Err(problem);
        }
        let in_headers = self.headers.iter().flat_map(|(_, value)| value.columns());
        if let Some(problem) = in_headers.into_iter().find_map(|column| wrong(column, out_of_place))
        {
            return Err(problem);
        }
        if self.body.as_ref().is_some_and(|body| body.length(&row.cells) > LONGEST_BODY) {
            return Err(format!("the body is longer than {} MiB", LONGEST_BODY >> 20).into());
        }
        if self.head_length(&row.cells) > LONGEST_HEAD {
            return Err(
                format!("URL and headers are longer than {} KiB", LONGEST_HEAD >> 10).into()
            );
        }
        Ok(())
    }

    fn head_length(&self, row: &[Box<[u8]>]) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.length(row) + 4);
        self.method.len() + self.path.length(row) + headers.sum::<usize>()
    }

    /// A lower bound of the request's length with these values.
    pub(super) fn length(&self, row: &[Box<[u8]>]) -> usize {
        let body = self.body.as_ref().map_or(0, |body| body.length(row));
        self.head_length(row) + body
    }

    /// Whether replies to the request have a body, by its method.
    pub(super) fn asked(&self) -> Asked {
        if self.method == "HEAD" { Asked::Head } else { Asked::Body }
    }

    /// The bytes of the request to the server of `page` with the values of a row. The result
    /// depends on whether it is the last of its connection.
    pub(super) fn write(&self, page: &Page, row: &[Box<[u8]>], is_last: bool) -> Vec<u8> {
        let mut text = format!("{} ", self.method).into_bytes();
        self.path.render(row, &mut text);
        text.extend_from_slice(b" HTTP/1.1\r\n");
        let is_given =
            |name: &str| self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let mut ours = |name: &str, value: &str| {
            if !is_given(name) {
                text.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
        };
        ours("Host", &page.host);
        ours("User-Agent", "duality-load");
        if is_last {
            ours("Connection", "close");
        }
        let has_body = matches!(&*self.method, "POST" | "PUT" | "PATCH");
        if self.body.is_some() || has_body {
            let length = self.body.as_ref().map_or(0, |body| body.length(row));
            ours("Content-Length", &length.to_string());
        }
        for (name, value) in &self.headers {
            text.extend_from_slice(format!("{name}: ").as_bytes());
            value.render(row, &mut text);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        if let Some(body) = &self.body {
            body.render(row, &mut text);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page() -> Page {
        Page { host: "example.org:81".to_owned(), path: "/".to_owned() }
    }

    fn written(request: &Request, is_last: bool) -> String {
        let bytes = Draft::new(request, None).unwrap().write(&page(), &[], is_last);
        String::from_utf8(bytes).unwrap()
    }

    fn request(method: &str, headers: &[&str], body: Option<&str>) -> Request {
        Request {
            method: method.parse().unwrap(),
            headers: headers.iter().map(|header| header.parse().unwrap()).collect(),
            body: body.map(|body| body.as_bytes().to_vec()),
            ..Request::get("/a?b={{c}}")
        }
    }

    #[test]
    fn a_request_is_written_with_its_headers_and_the_length_of_its_body() {
        let begin =
            "GET /a?b={{c}} HTTP/1.1\r\nHost: example.org:81\r\nUser-Agent: duality-load\r\n";
        assert_eq!(written(&request("GET", &[], None), false), format!("{begin}\r\n"));
        assert_eq!(
            written(&request("GET", &[], None), true),
            format!("{begin}Connection: close\r\n\r\n")
        );
        let headers = ["host: other", "USER-AGENT:x", "connection:  keep-alive ", "X: ä\tb"];
        assert_eq!(
            written(&request("PUT", &headers, Some("body")), true),
            "PUT /a?b={{c}} HTTP/1.1\r\nContent-Length: 4\r\nhost: other\r\nUSER-AGENT: x\r\n\
             connection: keep-alive\r\nX: ä\tb\r\n\r\nbody"
        );
        for (method, body, length) in [
            ("POST", None, Some(0)),
            ("DELETE", None, None),
            ("GET", Some(""), Some(0)),
            ("GET", Some("xyz"), Some(3)),
        ] {
            let text = written(&request(method, &[], body), false);
            let header = length.map(|length| format!("\r\nContent-Length: {length}\r\n"));
            match header {
                Some(header) => assert!(text.contains(&header), "{text}"),
                None => assert!(!text.contains("Length"), "{text}"),
            }
        }
    }

    #[test]
    fn what_would_be_another_line_is_refused() {
        for (header, message) in [
            ("X: a\r\nEvil: b", "the header X: a line end after byte 1"),
            ("X: a\nb", "a line end after byte 1"),
            ("X: a\0b", "a control character after byte 1"),
            ("X\r\n: a", r#""X\r\n" is no name"#),
            ("X", "write Name: value"),
            (": a", "is no name of a header"),
            ("A b: c", "is no name of a header"),
            ("content-LENGTH: 4", "follows from the body"),
            ("Transfer-Encoding: chunked", "follows from the body"),
        ] {
            let problem = header.parse::<Header>().unwrap_err().to_string();
            assert!(problem.contains(message) && !problem.contains(['\r', '\n']), "{problem}");
        }
        for method in ["", "GET /", "G\r\nX: y", "CONNECT", "é"] {
            assert!(method.parse::<Method>().is_err(), "{method:?}");
        }
        for path in ["a", "", "/a b", "/a\r\nX: y", "/é", "/a#b"] {
            assert!(Draft::new(&Request::get(path), None).is_err(), "{path:?}");
        }
    }

    #[test]
    fn credentials_are_encoded_and_not_repeated() {
        let header = Header::basic("Aladdin:open sesame").unwrap();
        assert_eq!(header.value, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        for wrong in ["secret", "secret:\r\nX: y"] {
            let problem = Header::basic(wrong).unwrap_err().to_string();
            assert!(problem.contains("NAME:PASSWORD") && !problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    fn values_are_checked_where_they_stand() {
        let values =
            |cell: &str| Values::parse(format!("id,v\n1,x\n2,{cell}\n").as_bytes()).unwrap();
        let asking = |text: &str, cell: &str| {
            let (path, header, body) = match text {
                "path" => ("/{{v}}", "x", ""),
                "header" => ("/", "{{v}}", ""),
                _ => ("/", "x", "{{v}}"),
            };
            let headers = vec![Header::new("X", header).unwrap()];
            let body = Some(body.as_bytes().to_vec());
            let request = Request { headers, body, ..Request::get(path) };
            Draft::new(&request, Some(&values(cell))).map(|_| ())
        };
        let place = "line 3 of the values, column v: ";
        for (text, cell, message) in [
            ("path", "a b", Some("must be percent-encoded")),
            ("path", "\"a\r\nb\"", Some("must be percent-encoded")),
            ("path", "a%20b", None),
            ("header", "\"a\r\nEvil: b\"", Some("a line end after byte 1")),
            ("header", "a b", None),
            ("body", "\"a\r\nb\"", None),
        ] {
            match (asking(text, cell), message) {
                (Err(problem), Some(message)) => {
                    let problem = problem.to_string();
                    assert!(problem.starts_with(place) && problem.contains(message), "{problem}");
                }
                (read, message) => assert_eq!((read, message), (Ok(()), None), "{text} {cell}"),
            }
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let long = Request { body: Some(vec![0; LONGEST_BODY + 1]), ..Request::get("/") };
        assert!(Draft::new(&long, None).unwrap_err().to_string().contains("64 MiB"));
        let long = Request::get(format!("/{}", "x".repeat(LONGEST_HEAD)));
        assert!(Draft::new(&long, None).unwrap_err().to_string().contains("64 KiB"));
        let header: Header = "X: y".parse().unwrap();
        let many = Request { headers: vec![header; MOST_HEADERS + 1], ..Request::get("/") };
        assert!(Draft::new(&many, None).unwrap_err().to_string().contains("100 headers"));
    }

    proptest! {
        /// Whatever the user's texts are, the head of the request has exactly the intended lines.
        #[test]
        fn no_text_adds_a_line(
            name in "[a-zA-Z-]{1,12}|\\PC{0,5}",
            value: String,
            path in "/\\PC{0,9}|/[\\r\\n -~]{0,9}",
        ) {
            let Ok(header) = Header::new(&name, &value) else { return Ok(()) };
            let request = Request { headers: vec![header], ..Request::get(path) };
            let Ok(draft) = Draft::new(&request, None) else { return Ok(()) };
            let bytes = draft.write(&page(), &[], false);
            let mut headers = [httparse::EMPTY_HEADER; 8];
            let mut read = httparse::Request::new(&mut headers);
            prop_assert!(read.parse(&bytes).unwrap().is_complete());
            let ours = ["host", "user-agent"].iter().filter(|ours| !name.eq_ignore_ascii_case(ours));
            prop_assert_eq!(read.headers.len(), 1 + ours.count());
        }
    }
}
