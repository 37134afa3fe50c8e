//! A file of URLs: the requests of a load, and their weights.
//!
//! ```text
//! # A line is [WEIGHT] [METHOD] URL. Comments begin with # or //.
//! /                                    with the method and body of the command line
//! 3 /search?q=a                        three times as often
//! GET http://127.0.0.1:8080/about      all URLs are of one server
//!
//! POST /things                         vegeta's form: headers and a body follow
//! Content-Type: application/json
//! @thing.json
//! ```
//!
//! A blank line ends the headers and the body of a request.

use super::super::authority_and_path;
use super::request::{Header, Method, Request};
use duality_trace::Mistake;

/// The most bytes of a file of URLs, of its lines, and of all bodies together.
const MOST_BYTES: usize = 16 << 20;
const LONGEST_LINE: usize = 64 << 10;
const MOST_OF_BODIES: usize = 256 << 20;

/// The most requests in a file, and the highest weight.
const MOST_REQUESTS: usize = 100_000;
const MOST_WEIGHT: u32 = 1_000_000;

/// A request in a file of URLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The line of its URL, from 1.
    pub line: usize,
    /// The weight of the request, at least 1.
    pub weight: u32,
    /// The host and port of its URL, if it has them.
    pub authority: Option<String>,
    /// The request.
    pub request: Request,
}

impl Listed {
    /// The most bytes of a file of URLs.
    pub const MOST_BYTES: usize = MOST_BYTES;

    /// Reads a file of URLs. A request has the method, the headers and the body of `common`, unless
    /// the file overrides them. `read` reads a file with a body.
    ///
    /// # Errors
    ///
    /// The line, the mistake in it, and the remedy.
    pub fn parse(
        text: &str,
        common: &Request,
        read: &mut dyn FnMut(&str) -> Result<Vec<u8>, Mistake>,
    ) -> Result<Vec<Self>, Mistake> {
        if text.len() > MOST_BYTES {
            return Err(format!("it is longer than {} MiB", MOST_BYTES >> 20).into());
        }
        let mut reader = Reader { common, read, listed: Vec::new(), is_open: false, bodies: 0 };
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            reader
                .line(index + 1, line)
                .map_err(|problem| format!("line {}: {problem}", index + 1))?;
        }
        reader.end()?;
        if reader.listed.is_empty() {
            return Err("no URL is in it".into());
        }
        Ok(reader.listed)
    }
}

/// A file of URLs that is being read.
struct Reader<'a> {
    common: &'a Request,
    read: &'a mut dyn FnMut(&str) -> Result<Vec<u8>, Mistake>,
    listed: Vec<Listed>,
    /// Whether headers and a body may follow for the last request.
    is_open: bool,
    /// Bytes of all bodies.
    bodies: usize,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, line: &str) -> Result<(), Mistake> {
        if line.len() > LONGEST_LINE {
            return Err(format!("it is longer than {} KiB", LONGEST_LINE >> 10).into());
        }
        if line.is_empty() {
            return self.end();
        }
        if line.starts_with('#') || line.starts_with("//") {
            return Ok(());
        }
        if let Some(begun) = request_line(line) {
            self.end()?;
            return self.begin(number, &begun?);
        }
        if !self.is_open {
            return Err(format!(
                "{:?} is no request: write [WEIGHT] [METHOD] URL, and headers right below it",
                line.chars().take(80).collect::<String>()
            )
            .into());
        }
        let last = self.listed.last_mut().expect("a request is open");
        if let Some(path) = line.strip_prefix('@') {
            if last.request.body.is_some() {
                return Err("the request has a body already: leave one out".into());
            }
            last.request.body = Some((self.read)(path)?);
        } else {
            last.request.headers.push(line.parse()?);
        }
        Ok(())
    }

    fn begin(&mut self, line: usize, begun: &RequestLine<'_>) -> Result<(), Mistake> {
        if self.listed.len() == MOST_REQUESTS {
            return Err(format!("more than {MOST_REQUESTS} requests").into());
        }
        let (authority, path) = place(begun.url)?;
        let method = match begun.method {
            Some(method) => method.parse()?,
            None => self.common.method.clone(),
        };
        let request = Request { method, path, headers: Vec::new(), body: None };
        self.listed.push(Listed { line, weight: begun.weight, authority, request });
        self.is_open = true;
        Ok(())
    }

    /// Completes the last request with the common parts.
    fn end(&mut self) -> Result<(), Mistake> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        let Some(Listed { request, .. }) = self.listed.last_mut() else { return Ok(()) };
        let is_own = |header: &&Header| {
            request.headers.iter().any(|own| own.name().eq_ignore_ascii_case(header.name()))
        };
        let common = self.common.headers.iter().filter(|header| !is_own(header));
        let headers: Vec<Header> = common.chain(&request.headers).cloned().collect();
        request.headers = headers;
        if request.body.is_none() {
            request.body.clone_from(&self.common.body);
        }
        self.bodies += request.body.as_ref().map_or(0, Vec::len);
        match self.bodies {
            0..=MOST_OF_BODIES => Ok(()),
            _ => {
                Err(format!("all bodies together are longer than {} MiB", MOST_OF_BODIES >> 20)
                    .into())
            }
        }
    }
}

/// `[WEIGHT] [METHOD] URL`.
struct RequestLine<'a> {
    weight: u32,
    method: Option<&'a str>,
    url: &'a str,
}

/// Reads a line that begins a request. `None` if the line does not begin a request.
fn request_line(line: &str) -> Option<Result<RequestLine<'_>, Mistake>> {
    let (first, rest) = word(line);
    let is_weight = first.bytes().all(|byte| byte.is_ascii_digit());
    let (weight, line) = if is_weight { (first, rest) } else { ("1", line) };
    let (first, rest) = word(line);
    let is_url = ["/", "http://", "https://"].iter().any(|scheme| first.starts_with(scheme));
    // A header has a colon after its first word.
    let is_method = first.parse::<Method>().is_ok() && !rest.is_empty() && !rest.starts_with(':');
    if !is_weight && !is_url && !is_method {
        return None;
    }
    let (method, url) = if is_url { (None, line) } else { (Some(first), rest) };
    Some(match weight.parse() {
        Ok(weight @ 1..=MOST_WEIGHT) => Ok(RequestLine { weight, method, url }),
        _ => Err(format!("{weight} is no weight: write 1 to {MOST_WEIGHT}").into()),
    })
}

/// The first word of a line, and the rest of the line.
fn word(line: &str) -> (&str, &str) {
    let (first, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    (first, rest.trim_start())
}

/// The authority of a URL, if it has one, and its path.
fn place(url: &str) -> Result<(Option<String>, String), Mistake> {
    if url.starts_with("https://") {
        return Err("of https://, write the path alone: the target names the server".into());
    }
    let (authority, path) = match url.strip_prefix("http://") {
        Some(rest) => authority_and_path(rest),
        None if url.starts_with('/') => ("", url.split('#').next().unwrap_or_default()),
        None => return Err("a URL begins with / or http://".into()),
    };
    if authority.contains('@') {
        return Err("a URL has no user names here: give --user NAME:PASSWORD".into());
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let authority = Some(authority.to_owned()).filter(|_| !url.starts_with('/'));
    Ok((authority, path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Vec<Listed>, Mistake> {
        let mut read = |path: &str| match path {
            "absent" => Err("absent: not found".into()),
            path => Ok(format!("<{path}>").into_bytes()),
        };
        let common = Request {
            method: "PUT".parse().unwrap(),
            headers: vec!["A: common".parse().unwrap(), "B: common".parse().unwrap()],
            body: Some(b"common".to_vec()),
            ..Request::get("/")
        };
        Listed::parse(text, &common, &mut read)
    }

    /// Weight, method, authority and path, headers, and body of the single request.
    fn only(text: &str) -> (u32, String, String, Vec<String>, String) {
        let mut listed = parse(text).unwrap();
        assert_eq!(listed.len(), 1, "{text}");
        let Listed { weight, authority, request, .. } = listed.remove(0);
        let url = format!("{}{}", authority.unwrap_or_default(), request.path);
        let headers = request.headers.iter().map(|header| format!("{header:?}")).collect();
        let body = String::from_utf8(request.body.unwrap()).unwrap();
        (weight, request.method.to_string(), url, headers, body)
    }

    #[test]
    fn lines_are_weight_method_and_url() {
        for (text, weight, method, url) in [
            ("/", 1, "PUT", "/"),
            ("3 /a?b=c#d", 3, "PUT", "/a?b=c"),
            ("\n# x\n// y\n  7\tDELETE   /a/{{id}}  \n", 7, "DELETE", "/a/{{id}}"),
            ("GET http://h:81", 1, "GET", "h:81/"),
            ("http://[::1]:81?a", 1, "PUT", "[::1]:81/?a"),
            ("2 http://h/a:b", 2, "PUT", "h/a:b"),
        ] {
            let (found_weight, found_method, found_url, ..) = only(text);
            assert_eq!(
                (found_weight, &*found_method, &*found_url),
                (weight, method, url),
                "{text}"
            );
        }
    }

    #[test]
    fn headers_and_a_body_follow_as_in_vegeta_and_come_before_what_is_common() {
        let text = "POST /a\nb: own\nC: own\n@thing.json\n\n# next\nGET /b\nGET /c\nA: own\n";
        let listed = parse(text).unwrap();
        let lines: Vec<_> = listed.iter().map(|listed| listed.line).collect();
        assert_eq!(lines, [1, 7, 8]);
        let names = |index: usize| -> Vec<&str> {
            listed[index].request.headers.iter().map(Header::name).collect()
        };
        assert_eq!(
            (names(0), names(1), names(2)),
            (vec!["A", "b", "C"], vec!["A", "B"], vec!["B", "A"])
        );
        let body = |index: usize| listed[index].request.body.clone().unwrap();
        assert_eq!((body(0), body(1)), (b"<thing.json>".to_vec(), b"common".to_vec()));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, message) in [
            ("", "no URL is in it"),
            ("# /\n", "no URL is in it"),
            ("/a\n\nA: b", "line 3: \"A: b\" is no request"),
            ("a", "line 1: \"a\" is no request"),
            ("0 /", "line 1: 0 is no weight"),
            ("99999999999999999999 /", "is no weight"),
            ("1000001 /", "is no weight"),
            ("7", "a URL begins with / or http://"),
            ("GET ftp://h/", "a URL begins with / or http://"),
            ("CONNECT /", "is no request"),
            ("/\nhttps://h/", "line 2: of https://, write the path alone"),
            ("http://me:secret@h/", "--user NAME:PASSWORD"),
            ("/\nA", "line 2: \"A\" is no header"),
            ("/\nContent-Length: 4", "line 2: Content-Length follows from the body"),
            ("/\n@absent", "line 2: absent: not found"),
            ("/\n@a\n@b", "line 3: the request has a body already"),
        ] {
            let problem = parse(text).unwrap_err().to_string();
            assert!(problem.contains(message) && !problem.contains('\n'), "{text}: {problem}");
        }
        let long = format!("/{}", "x".repeat(LONGEST_LINE));
        assert!(parse(&long).unwrap_err().to_string().contains("64 KiB"));
        assert!(
            parse(&"/\n".repeat(MOST_REQUESTS + 1))
                .unwrap_err()
                .to_string()
                .contains("100000 requests")
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            requests in prop::collection::vec(
                (1..=MOST_WEIGHT, "[A-Z]{1,9}", "/[!-~]{0,20}", "[a-z]{1,5}: [a-z]{1,5}"), 1..9,
            ),
        ) {
            let is_plain = |(_, method, path, _): &(u32, String, String, String)| {
                method != "CONNECT" && !path.contains('#') && !path.starts_with("//")
            };
            prop_assume!(requests.iter().all(is_plain));
            let text: String = requests
                .iter()
                .map(|(weight, method, path, header)| format!("{weight} {method} {path}\n{header}\n\n"))
                .collect();
            let listed = parse(&text).unwrap();
            prop_assert_eq!(listed.len(), requests.len());
            for (listed, (weight, method, path, _)) in listed.iter().zip(&requests) {
                prop_assert_eq!(listed.weight, *weight);
                prop_assert_eq!(&listed.request.method.to_string(), method);
                prop_assert_eq!(&listed.request.path, path);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[\\PC\n/:@# 0-9A-Z]{0,60}") {
            let _ = parse(&text);
        }
    }
}
