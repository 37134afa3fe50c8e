//! A range of bytes that a `Range` field asks for (RFC 9110, section 14).

/// The meaning of a `Range` field for a representation of a given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The whole. The field is malformed, has another unit, or asks for several ranges, so a server
    /// may ignore it.
    Whole,
    /// These bytes: at least one, and all within the representation.
    Part(Part),
    /// Bytes that the representation does not have.
    Nothing,
}

/// Some bytes of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of bytes before the range.
    pub offset: u64,
    /// The number of bytes in the range.
    pub length: u64,
}

impl Part {
    /// Returns these bytes of a representation in memory. The part must lie within the
    /// representation.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.offset as usize..][..self.length as usize]
    }
}

/// Reads the value of a `Range` field, for a representation of `total` bytes.
pub(super) fn parse(value: &[u8], total: u64) -> Asked {
    let Some((unit, ranges)) = split(value, b'=') else {
        return Asked::Whole;
    };
    let Some((first, last)) = split(ranges, b'-') else {
        return Asked::Whole;
    };
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return Asked::Whole;
    }
    // A comma, as before a second range, is not a digit, and neither is a space.
    let (offset, end) = match (first.is_empty(), number(first), number(last)) {
        (true, _, Some(suffix)) => (total.saturating_sub(suffix), total),
        (false, Some(first), None) if last.is_empty() => (first, total),
        (false, Some(first), Some(last)) if first <= last => {
            (first, total.min(last.saturating_add(1)))
        }
        _ => return Asked::Whole,
    };
    if offset < end { Asked::Part(Part { offset, length: end - offset }) } else { Asked::Nothing }
}

fn split(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&byte| byte == separator)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// A number in digits. A number too large for 64 bits becomes the largest, which is beyond the end
/// of every file.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append =
        |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, append))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_read() {
        let part = |offset, length| Asked::Part(Part { offset, length });
        for (value, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=0-99", part(0, 100)),
            ("bytes=10-19", part(10, 10)),
            ("bytes=90-", part(90, 10)),
            ("bytes=90-500", part(90, 10)),
            ("bytes=-1", part(99, 1)),
            ("bytes=-500", part(0, 100)),
            ("Bytes=1-2", part(1, 2)),
            ("bytes=0-99999999999999999999999", part(0, 100)),
            ("bytes=100-", Asked::Nothing),
            ("bytes=99999999999999999999999-", Asked::Nothing),
            ("bytes=-0", Asked::Nothing),
            ("bytes=2-1", Asked::Whole),
            ("bytes=0-1,5-6", Asked::Whole),
            ("bytes=-", Asked::Whole),
            ("bytes=a-b", Asked::Whole),
            ("bytes=+1-2", Asked::Whole),
            ("bytes=1", Asked::Whole),
            ("bytes", Asked::Whole),
            ("lines=1-2", Asked::Whole),
            ("bytes =0-9", Asked::Whole),
            ("bytes= 0-9", Asked::Whole),
            ("bytes=0 -9", Asked::Whole),
            ("bytes=0- 9", Asked::Whole),
            ("bytes= -9", Asked::Whole),
            ("bytes=9- ", Asked::Whole),
            ("", Asked::Whole),
        ] {
            assert_eq!(parse(value.as_bytes(), 100), expected, "{value}");
        }
        assert_eq!(parse(b"bytes=0-", 0), Asked::Nothing);
        assert_eq!(parse(b"bytes=-5", 0), Asked::Nothing);
    }

    proptest! {
        #[test]
        fn a_part_lies_within(value in "bytes=[0-9]{0,22}-[0-9]{0,22}", total: u64) {
            if let Asked::Part(Part { offset, length }) = parse(value.as_bytes(), total) {
                prop_assert!(length > 0);
                prop_assert!(offset.checked_add(length).is_some_and(|end| end <= total));
            }
        }

        #[test]
        fn any_value_is_read(value: Vec<u8>, total: u64) {
            parse(&value, total);
        }
    }
}
