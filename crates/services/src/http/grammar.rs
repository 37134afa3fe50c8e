//! The classes of bytes and numbers in HTTP (RFC 9110, section 5.6).

/// Digits alone, for a number of 64 bits.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append = |length: u64, digit: &u8| {
        length.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit - b'0')))
    };
    value.iter().try_fold(0, append)
}

/// Whether a byte may be part of a token (RFC 9110, section 5.6.2): a method, or a field's name.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
