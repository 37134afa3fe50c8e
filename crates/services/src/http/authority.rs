//! Hosts and ports, as `Host` and the absolute form of a target have them (RFC 3986, section 3.2).

use super::grammar::number;

/// The host and, if there is one, the port of an authority. `None` if the value is not an
/// authority.
///
/// RFC 3986 allows a comma in a name, but this function refuses it: two joined fields look like
/// such a name.
pub(super) fn split_authority(value: &[u8]) -> Option<(&[u8], Option<u64>)> {
    let end = match value {
        [b'[', ..] => value.iter().position(|&byte| byte == b']')? + 1,
        _ => value.iter().position(|&byte| byte == b':').unwrap_or(value.len()),
    };
    let (host, port) = value.split_at(end);
    let host_is_right = match host {
        [] | [b'[', b']'] => false,
        [b'[', address @ .., b']'] => address.iter().all(is_of_address),
        name => is_name(name),
    };
    let port = match port {
        // RFC 3986 allows a colon without digits.
        [] | [b':'] => None,
        [b':', digits @ ..] => Some(number(digits).filter(|&port| port <= 65_535)?),
        _ => return None,
    };
    host_is_right.then_some((host, port))
}

/// Whether a byte may stand in the brackets of an address of IPv6.
fn is_of_address(byte: &u8) -> bool {
    byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')
}

/// Whether this is a registered name, or an address of IPv4.
fn is_name(name: &[u8]) -> bool {
    // Almost all names are plain, and every request has a name in `Host`.
    name.iter().all(|&byte| is_plain(byte)) || is_escaped_name(name)
}

fn is_escaped_name(name: &[u8]) -> bool {
    let mut bytes = name.iter().copied();
    while let Some(byte) = bytes.next() {
        let escape = byte == b'%'
            && bytes.next().is_some_and(|digit| digit.is_ascii_hexdigit())
            && bytes.next().is_some_and(|digit| digit.is_ascii_hexdigit());
        if !is_plain(byte) && !escape {
            return false;
        }
    }
    true
}

/// Whether a byte may stand in a name as it is. The written-out pattern compiles to a few
/// comparisons and a bit test, without a loop.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'!')
        || matches!(byte, b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_checked() {
        for host in [
            "h",
            "h:80",
            "h:",
            "127.0.0.1:65535",
            "[::1]",
            "[::1]:80",
            "a_b.c-d~",
            "%41",
            "a!$&'()*+;=",
        ] {
            assert!(split_authority(host.as_bytes()).is_some(), "{host}");
        }
        for host in [
            "",
            ":80",
            "a b",
            "a/b",
            "a@b",
            "a,b",
            "a:b",
            "a:65536",
            "a:-1",
            "a:80:80",
            "a:+80",
            "[::1",
            "[]",
            "[h]",
            "[::1]80",
            "::1",
            "a%4",
            "a%zz",
            "a\\b",
            "a\"",
            "a<",
            "caf\u{e9}",
        ] {
            assert!(split_authority(host.as_bytes()).is_none(), "{host}");
        }
    }

    #[test]
    fn plain_bytes_are_those_of_the_standard() {
        let unreserved_or_delimiter = b"-._~!$&'()*+;=";
        for byte in 0..=u8::MAX {
            let expected = byte.is_ascii_alphanumeric() || unreserved_or_delimiter.contains(&byte);
            assert_eq!(is_plain(byte), expected, "{byte}");
        }
    }
}
