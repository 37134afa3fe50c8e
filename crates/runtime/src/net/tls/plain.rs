//! What a client gets that speaks plain HTTP on a port of TLS.
//!
//! An alert of TLS would reach it as a few bytes that it cannot show. So it is answered in words,
//! as by nginx.

/// The whole reply.
const REPLY: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Server: duality\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 64\r\n\
    Connection: close\r\n\r\n\
    A plain HTTP request was sent to an HTTPS port: ask by https://\n";

/// The reply to the `first` bytes of a connection, if they are a request of HTTP. A record of TLS
/// begins with a byte that is no letter.
pub(in crate::net) fn reply_to(first: &[u8]) -> Option<&'static [u8]> {
    let line = first.split(|&byte| byte == b'\r' || byte == b'\n').next()?;
    let mut words = line.split(|&byte| byte == b' ');
    let is_method = words.next()?.iter().all(u8::is_ascii_uppercase) && !line.starts_with(b" ");
    let version = words.nth(1)?;
    (is_method && version.starts_with(b"HTTP/")).then_some(REPLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_http_is_answered_in_words() {
        let text = std::str::from_utf8(REPLY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
        for first in
            ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /a HTTP/1.0\r\n", "PRI * HTTP/2.0\r\n"]
        {
            assert!(reply_to(first.as_bytes()).is_some(), "{first}");
        }
        for first in
            ["", "\u{16}\u{3}\u{1}", " / HTTP/1.1", "GET", "GET /", "QUOTE a b", "g / HTTP/1.1"]
        {
            assert!(reply_to(first.as_bytes()).is_none(), "{first}");
        }
    }
}
