//! From bytes to replies and from words to commands (RESP2,
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>), without I/O.
//!
//! The crate `redis-protocol` decodes. It recurses as deep as a reply is nested, and asks for as
//! many bytes as the reply announces. So this module first finds the end of the reply, within
//! bounds, and gives the crate only the bytes of the reply.

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::encode::encode_borrowed;
use redis_protocol::resp2::types::{BorrowedFrame, OwnedFrame};

use super::super::{LONGEST_REMARK, MOST_REMARKS, Remark};

/// A reply of Redis.
pub(crate) type Reply = OwnedFrame;

/// The most bytes in a reply: twice the size of the most remarks of the most bytes.
const LONGEST_REPLY: usize = 2 * MOST_REMARKS * LONGEST_REMARK;
/// The most bytes in a line, such as a status, an error, a number or a length.
const LONGEST_LINE: usize = 1024;
/// The most elements in an array.
const LONGEST_ARRAY: usize = MOST_REMARKS;

const LINE_END: &[u8] = b"\r\n";

/// The bytes are not a reply to one of our commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its reply {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// The reply at the beginning of `bytes`, and its length in bytes. `None` if more bytes must come
/// first.
///
/// # Errors
///
/// The bytes cannot become a reply within the bounds: about 6 MiB, and at most 200 elements in an
/// array, none of them an array.
pub(crate) fn decode_reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let Some(length) = reply_end(bytes)? else { return Ok(None) };
    match decode(&bytes[..length]) {
        Ok(Some((reply, used))) if used == length => Ok(Some((reply, length))),
        _ => Err(Malformed("is not RESP2")),
    }
}

/// Appends a command to `output`.
pub(crate) fn push_command(output: &mut Vec<u8>, words: &[&[u8]]) {
    let words: Vec<_> = words.iter().map(|word| BorrowedFrame::BulkString(word)).collect();
    let command = BorrowedFrame::Array(&words);
    let start = output.len();
    output.resize(start + command.encode_len(false), 0);
    encode_borrowed(&mut output[start..], &command, false)
        .expect("there is as much room as the command said it needs");
}

/// A remark as an element of the list: the number of bytes in the guest's name, a colon, the name,
/// the text.
pub(crate) fn encode_remark(remark: &Remark) -> String {
    format!("{}:{}{}", remark.guest.len(), remark.guest, remark.text)
}

/// The remark in an element of the list. `None` if another program made the element.
pub(crate) fn decode_remark(element: &[u8]) -> Option<Remark> {
    let (length, rest) = std::str::from_utf8(element).ok()?.split_once(':')?;
    let (guest, text) = rest.split_at_checked(length.parse().ok()?)?;
    Some(Remark { guest: guest.to_owned(), text: text.to_owned() })
}

/// The end of the reply at the beginning of `bytes`.
fn reply_end(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    if bytes.first() != Some(&b'*') {
        return item_end(bytes, 0);
    }
    let Some(mut end) = line_end(bytes, 0)? else { return Ok(None) };
    let elements = match length(&bytes[1..end - LINE_END.len()])? {
        Some(elements) if elements > LONGEST_ARRAY => {
            return Err(Malformed("has more elements than were asked for"));
        }
        elements => elements.unwrap_or(0),
    };
    for _ in 0..elements {
        match item_end(bytes, end)? {
            Some(next) => end = next,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

/// The end of the reply that begins at `start` and is not an array.
fn item_end(bytes: &[u8], start: usize) -> Result<Option<usize>, Malformed> {
    let Some(kind) = bytes.get(start) else { return Ok(None) };
    if !b"+-:$".contains(kind) {
        return Err(Malformed("is not RESP2, or is nested"));
    }
    let Some(end) = line_end(bytes, start)? else { return Ok(None) };
    if *kind != b'$' {
        return Ok(Some(end));
    }
    let Some(length) = length(&bytes[start + 1..end - LINE_END.len()])? else {
        return Ok(Some(end));
    };
    if end.saturating_add(length) > LONGEST_REPLY {
        return Err(Malformed("is longer than anything it was given"));
    }
    let end = end + length + LINE_END.len();
    match bytes.get(end - LINE_END.len()..end) {
        None => Ok(None),
        Some(LINE_END) => Ok(Some(end)),
        Some(_) => Err(Malformed("does not end where it says")),
    }
}

/// The end of the line that begins at `start`, CR and LF included.
fn line_end(bytes: &[u8], start: usize) -> Result<Option<usize>, Malformed> {
    let line = &bytes[start..];
    let line = &line[..line.len().min(LONGEST_LINE)];
    match line.windows(LINE_END.len()).position(|pair| pair == LINE_END) {
        Some(offset) => Ok(Some(start + offset + LINE_END.len())),
        None if line.len() < LONGEST_LINE => Ok(None),
        None => Err(Malformed("has a line without an end")),
    }
}

/// A length in bytes or elements. `None` stands for null, which is written as -1.
fn length(digits: &[u8]) -> Result<Option<usize>, Malformed> {
    if digits == b"-1" {
        return Ok(None);
    }
    let digits = std::str::from_utf8(digits).ok();
    let length = digits.and_then(|digits| digits.parse().ok());
    length.map(Some).ok_or(Malformed("has a length that is no number"))
}

/// A count, which GET returns as text.
pub(super) fn number(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Integer(number) => (*number).try_into().ok(),
        Reply::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

/// A text, if there is one.
pub(super) fn text(reply: Reply) -> Option<Option<String>> {
    match reply {
        Reply::Null => Some(None),
        Reply::BulkString(bytes) => String::from_utf8(bytes).ok().map(Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(bytes: impl AsRef<[u8]>) -> Result<Option<(Reply, usize)>, Malformed> {
        decode_reply(bytes.as_ref())
    }

    #[test]
    fn replies_are_decoded_and_what_follows_is_left() {
        for (bytes, reply) in [
            ("+OK\r\n", Reply::SimpleString(b"OK".to_vec())),
            ("-ERR no\r\n", Reply::Error("ERR no".into())),
            (":-7\r\n", Reply::Integer(-7)),
            ("$4\r\na\r\nb\r\n", Reply::BulkString(b"a\r\nb".to_vec())),
            ("$0\r\n\r\n", Reply::BulkString(vec![])),
            ("$-1\r\n", Reply::Null),
            ("*0\r\n", Reply::Array(vec![])),
            ("*-1\r\n", Reply::Null),
            (
                "*3\r\n$1\r\nx\r\n$-1\r\n:1\r\n",
                Reply::Array(vec![
                    Reply::BulkString(b"x".to_vec()),
                    Reply::Null,
                    Reply::Integer(1),
                ]),
            ),
        ] {
            assert_eq!(decoded(bytes), Ok(Some((reply.clone(), bytes.len()))));
            assert_eq!(decoded(format!("{bytes}:1\r\n")), Ok(Some((reply, bytes.len()))));
            for part in 0..bytes.len() {
                assert_eq!(decoded(&bytes[..part]), Ok(None), "{:?}", &bytes[..part]);
            }
        }
    }

    #[test]
    fn what_has_no_bound_is_refused_before_it_has_come() {
        for bytes in [
            "HTTP/1.1 400 Bad Request\r\n".to_owned(),
            "*1\r\n".repeat(100_000),
            "*201\r\n".to_owned(),
            "*18446744073709551615\r\n".to_owned(),
            "$9223372036854775807\r\n".to_owned(),
            "$18446744073709551616\r\n".to_owned(),
            format!("${LONGEST_REPLY}\r\n"),
            format!(
                "*2\r\n${0}\r\n{1}\r\n${0}\r\n",
                LONGEST_REPLY / 2,
                "x".repeat(LONGEST_REPLY / 2)
            ),
            "$-2\r\n".to_owned(),
            "$x\r\n".to_owned(),
            "$1\r\nabc".to_owned(),
            ":1 \r\n".to_owned(),
            format!("+{}", "x".repeat(LONGEST_LINE)),
        ] {
            assert!(decoded(&bytes).is_err(), "{bytes:.40}");
        }
    }

    #[test]
    fn the_longest_visit_is_within_the_bounds() {
        let element =
            encode_remark(&Remark { guest: String::new(), text: "x".repeat(LONGEST_REMARK) });
        let mut bytes = format!("*{MOST_REMARKS}\r\n").into_bytes();
        for _ in 0..MOST_REMARKS {
            bytes.extend(format!("${}\r\n{element}\r\n", element.len()).bytes());
        }
        assert!(decoded(&bytes).unwrap().is_some_and(|(_, length)| length == bytes.len()));
    }

    #[test]
    fn commands_are_arrays_of_words() {
        let mut output = vec![];
        push_command(&mut output, &[b"GET", b"a key"]);
        push_command(&mut output, &[b""]);
        assert_eq!(output, b"*2\r\n$3\r\nGET\r\n$5\r\na key\r\n*1\r\n$0\r\n\r\n");
    }

    #[test]
    fn what_is_no_remark_is_none() {
        for element in ["", "hello", ":x", "3:ab", "1:\u{e9}", "-1:x", "99999999999999999999:x"] {
            assert_eq!(decode_remark(element.as_bytes()), None, "{element}");
        }
        assert_eq!(decode_remark(b"1:a\xff"), None);
    }

    proptest! {
        #[test]
        fn remarks_come_back(guest: String, text: String) {
            let remark = Remark { guest, text };
            prop_assert_eq!(decode_remark(encode_remark(&remark).as_bytes()), Some(remark));
        }

        #[test]
        fn commands_are_read_as_they_were_meant(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..5)) {
            let mut output = vec![];
            push_command(&mut output, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let command = Reply::Array(words.into_iter().map(Reply::BulkString).collect());
            prop_assert_eq!(decode_reply(&output), Ok(Some((command, output.len()))));
        }

        /// Generates bytes that replies consist of, so that the decoder gets far.
        #[test]
        fn no_bytes_make_it_panic(pieces in prop::collection::vec(prop_oneof![
            "[*$:+-][-0-9]{0,3}".prop_map(String::into_bytes),
            Just(b"\r\n".to_vec()),
            prop::collection::vec(any::<u8>(), 0..4),
        ], 0..20)) {
            let bytes = pieces.concat();
            if let Ok(Some((_, length))) = decode_reply(&bytes) {
                prop_assert!(0 < length && length <= bytes.len());
                // Without its last byte, the reply is incomplete.
                prop_assert_eq!(decode_reply(&bytes[..length - 1]), Ok(None));
            }
        }
    }
}
