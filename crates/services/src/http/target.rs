//! Turns the target of a request into the path of a file: decoded once, without dot segments,
//! relative to the root.

use std::borrow::Cow;

use super::{
    authority::split_authority,
    status::{self, Status},
};

/// The file that a target asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resolved<'t> {
    /// The path relative to the root. Single slashes join the segments, and no segment is empty,
    /// `.` or `..`. There are no control characters. If the target ends with a slash, [`INDEX`] is
    /// added.
    pub(super) path: Cow<'t, str>,
    /// The target from the question mark on, as it came. Empty if there is none.
    pub(super) query: &'t str,
}

/// The file that is served for a directory.
pub(super) const INDEX: &str = "index.html";

/// Resolves a target in origin form (`/a/b?c`) or absolute form (`http://host/a/b?c`); RFC 9112,
/// section 3.2.
///
/// # Errors
///
/// A target of another form, with a bad percent escape, a control character, a backslash, or `..`
/// beyond the root, gets 400. A target with `https` gets 421, since there is no TLS here (RFC 9110,
/// section 7.4). A name that no path in a `&str` can have gets 404: it has a slash inside a segment
/// (`%2f`), or is not in UTF-8.
pub(super) fn resolve(target: &str) -> Result<Resolved<'_>, &'static Status> {
    if let Some(path) = as_it_is(target) {
        return Ok(Resolved { path, query: "" });
    }
    let (path, query) = resolve_thoroughly(target)?;
    Ok(Resolved { path: path.into(), query })
}

/// The path of a target that needs no decoding, as nearly all do. Such a target has no escapes,
/// nothing after the path, and no segment that is empty or begins with a dot.
fn as_it_is(target: &str) -> Option<Cow<'_, str>> {
    let path = target.strip_prefix('/')?;
    let mut before = b'/';
    for byte in path.bytes() {
        let is_plain = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => true,
            b'/' | b'.' => before != b'/',
            _ => false,
        };
        if !is_plain {
            return None;
        }
        before = byte;
    }
    Some(match before {
        b'/' if path.is_empty() => INDEX.into(),
        b'/' => format!("{path}{INDEX}").into(),
        _ => path.into(),
    })
}

/// The path and the query of any target.
fn resolve_thoroughly(target: &str) -> Result<(String, &str), &'static Status> {
    if target.contains('#') {
        return Err(&status::BAD_REQUEST);
    }
    let target = without_origin(target)?;
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    // No URI has a backslash, and some implementations take it for a slash.
    if path.contains('\\') {
        return Err(&status::BAD_REQUEST);
    }

    let mut segments: Vec<String> = Vec::new();
    let mut directory = true;
    for raw in path.split('/') {
        let segment = decode(raw)?;
        directory = matches!(segment.as_str(), "" | "." | "..");
        match segment.as_str() {
            "" | "." => {}
            ".." => {
                segments.pop().ok_or(&status::BAD_REQUEST)?;
            }
            _ => segments.push(segment),
        }
    }
    if directory {
        segments.push(INDEX.to_owned());
    }
    Ok((segments.join("/"), query))
}

/// The target that has a directory's slash at its end: `path` is decoded, `query` raw.
///
/// The location is built anew from the decoded path. The client's own text, such as
/// `//example.org`, could redirect it to another host.
pub(super) fn with_slash(path: &str, query: &str) -> String {
    const HEXADECIMAL: &[u8; 16] = b"0123456789ABCDEF";
    let mut location = String::with_capacity(path.len() + query.len() + 2);
    location.push('/');
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            location.push(char::from(byte));
        } else {
            location.push('%');
            location.push(char::from(HEXADECIMAL[usize::from(byte >> 4)]));
            location.push(char::from(HEXADECIMAL[usize::from(byte & 15)]));
        }
    }
    location.push('/');
    location.push_str(query);
    location
}

/// Whether a target names the same origin as `Host` does, or names no origin.
pub(super) fn agrees(target: &str, host: &[u8]) -> bool {
    if target.starts_with('/') {
        return true;
    }
    let Some((scheme, authority, _)) = split_absolute(target) else { return true };
    // RFC 9110, section 4.2.3: a missing port is the scheme's default.
    let default = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
    match (split_authority(authority.as_bytes()), split_authority(host)) {
        (Some((name, port)), Some((other, other_port))) => {
            let (port, other_port) = (port.unwrap_or(default), other_port.unwrap_or(default));
            name.eq_ignore_ascii_case(other) && port == other_port
        }
        _ => false,
    }
}

/// The path and query of a target; an absolute form may leave out its path.
fn without_origin(target: &str) -> Result<&str, &'static Status> {
    if target.starts_with('/') {
        return Ok(target);
    }
    let (scheme, authority, path) = split_absolute(target).ok_or(&status::BAD_REQUEST)?;
    if split_authority(authority.as_bytes()).is_none() {
        Err(&status::BAD_REQUEST)
    } else if scheme.eq_ignore_ascii_case("http") {
        Ok(path)
    } else if scheme.eq_ignore_ascii_case("https") {
        Err(&status::MISDIRECTED_REQUEST)
    } else {
        Err(&status::BAD_REQUEST)
    }
}

/// The scheme, the authority, and all that follows.
pub(crate) fn split_absolute(target: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    Some((scheme, authority, path))
}

/// Decodes the percent escapes of one segment.
fn decode(raw: &str) -> Result<String, &'static Status> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        let byte = if byte == b'%' {
            let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
            let (Some(high), Some(low)) = (digit(), digit()) else {
                return Err(&status::BAD_REQUEST);
            };
            // Two hexadecimal digits fit in a byte.
            (high << 4 | low) as u8
        } else {
            byte
        };
        match byte {
            0..=31 | 127 => return Err(&status::BAD_REQUEST),
            b'/' => return Err(&status::NOT_FOUND),
            _ => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).map_err(|_| &status::NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn targets_become_paths() {
        for (target, path) in [
            ("/", "index.html"),
            ("/a/b.txt", "a/b.txt"),
            ("/a/", "a/index.html"),
            ("/a/.", "a/index.html"),
            ("/a/b/..", "a/index.html"),
            ("//a///b", "a/b"),
            ("/a/./b/../c", "a/c"),
            ("/a/%2e%2E/c", "c"),
            ("/a%20b", "a b"),
            ("/caf%C3%A9", "café"),
            ("/café", "café"),
            ("/%2520", "%20"),
            ("/...", "..."),
            ("/a?b=/../..", "a"),
            ("http://host:80/a", "a"),
            ("HTTP://host", "index.html"),
            ("http://host?q", "index.html"),
        ] {
            assert_eq!(resolve(target).map(|resolved| resolved.path), Ok(path.into()), "{target}");
        }
        assert_eq!(resolve("/a?b?c").unwrap().query, "?b?c");
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for (target, code) in [
            ("", 400),
            ("*", 400),
            ("a", 400),
            ("host:80", 400),
            ("ftp://host/", 400),
            ("https://host/", 421),
            ("HTTPS://host", 421),
            ("https://user@host/", 400),
            ("http:///a", 400),
            ("http://user@host/", 400),
            ("http://host:port/", 400),
            ("/a\\b", 400),
            ("/..", 400),
            ("/a/../..", 400),
            ("/%2e%2e/etc/passwd", 400),
            ("/a%", 400),
            ("/a%2", 400),
            ("/a%zz", 400),
            ("/a%+1", 400),
            ("/a%00b", 400),
            ("/a%0d%0a", 400),
            ("/%7f", 400),
            ("/a#b", 400),
            ("/a%2fb", 404),
            ("/..%2f..%2fetc", 404),
            ("/%ff", 404),
        ] {
            assert_eq!(resolve(target).map_err(|status| status.code), Err(code), "{target}");
        }
    }

    #[test]
    fn an_origin_is_named_in_several_ways() {
        for (target, host, expected) in [
            ("/", "any", true),
            ("http://h/", "h", true),
            ("http://H/", "h", true),
            ("http://h:80/", "h", true),
            ("http://h/", "h:80", true),
            ("http://h:/", "h", true),
            ("http://h:080/", "h:80", true),
            ("http://[::1]:80/", "[::1]", true),
            ("http://[::1]/", "[::1]:80", true),
            ("http://h:81/", "h:81", true),
            ("https://h:443/", "h", true),
            ("http://i/", "h", false),
            ("http://h:81/", "h", false),
            ("http://h/", "h:81", false),
            ("http://h:443/", "h", false),
            ("https://h:80/", "h", false),
            ("http://[::1]/", "[::1:80]", false),
            ("http://h:x/", "h", false),
        ] {
            assert_eq!(agrees(target, host.as_bytes()), expected, "{target} and {host}");
        }
    }

    #[test]
    fn a_redirect_stays_on_this_host() {
        let resolved = resolve("//example.org/%22 ?q").unwrap();
        assert_eq!(with_slash(&resolved.path, resolved.query), "/example.org/%22%20/?q");
    }

    proptest! {
        #[test]
        fn what_is_said_as_it_is_is_what_a_thorough_look_finds(target in "/([a-zA-Z0-9./~_-]){0,12}") {
            if let Some(path) = as_it_is(&target) {
                prop_assert_eq!(resolve_thoroughly(&target), Ok((path.into_owned(), "")));
            }
        }

        #[test]
        fn a_path_never_leaves_the_root(
            target in "(/|http://h)?([a-z./%]|%2e|%2f|%00|\\PC){0,40}",
        ) {
            if let Ok(Resolved { path, query }) = resolve(&target) {
                prop_assert!(!path.starts_with('/'));
                prop_assert!(!path.bytes().any(|byte| byte < 32 || byte == 127));
                prop_assert!(path.split('/').all(|segment| !matches!(segment, "" | "." | "..")));
                // The redirect for a path leads back to it.
                let location = with_slash(&path, query);
                prop_assert!(location.is_ascii() || !query.is_ascii());
                prop_assert_eq!(resolve(&location).unwrap().path, format!("{path}/{INDEX}"));
            }
        }
    }
}
