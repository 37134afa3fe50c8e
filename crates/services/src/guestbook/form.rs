//! Forms as browsers send them: `application/x-www-form-urlencoded` (the URL standard, section 5).

/// The media type of such forms.
pub(super) const TYPE: &str = "application/x-www-form-urlencoded";

/// Why a body is not the wanted form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// A percent sign without two hexadecimal digits.
    Escape,
    /// Bytes that are not UTF-8.
    Text,
    /// A field that comes twice, so that its value is ambiguous.
    Repeated,
}

/// The values of the fields called `names`, in that order. `None` for a missing field. Fields of
/// other names are ignored, as long as they are well-formed.
///
/// # Errors
///
/// A part of the form is not well-formed. Then the whole form is refused.
pub(super) fn parse<const N: usize>(
    body: &[u8],
    names: [&str; N],
) -> Result<[Option<String>; N], Malformed> {
    let mut values = [const { None }; N];
    for field in body.split(|&byte| byte == b'&').filter(|field| !field.is_empty()) {
        let equals = field.iter().position(|&byte| byte == b'=');
        let (name, value) = match equals {
            Some(at) => (&field[..at], &field[at + 1..]),
            None => (field, &b""[..]),
        };
        let (name, value) = (decode(name)?, decode(value)?);
        if let Some(place) = names.iter().position(|known| *known == name)
            && values[place].replace(value).is_some()
        {
            return Err(Malformed::Repeated);
        }
    }
    Ok(values)
}

/// Decodes the escapes of a name or a value, once.
fn decode(raw: &[u8]) -> Result<String, Malformed> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(&byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || bytes.next().and_then(|&digit| char::from(digit).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    return Err(Malformed::Escape);
                };
                // Two hexadecimal digits fit in a byte.
                (high << 4 | low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).map_err(|_| Malformed::Text)
}

/// Whether this is the media type of such a form, with any parameters.
pub(super) fn is_form(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(TYPE.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_found() {
        let some = |text: &str| Some(text.to_owned());
        for (body, name, text) in [
            ("name=Ada&text=hello", some("Ada"), some("hello")),
            ("text=1+%2B+1+%3D+2&name=%C3%89va", some("Éva"), some("1 + 1 = 2")),
            ("na%6De=a%26b&other=x&other=y", some("a&b"), None),
            ("name=%2541", some("%41"), None),
            ("&&name&text=a=b=c&", some(""), some("a=b=c")),
            ("Name=x&text=%0D%0A", None, some("\r\n")),
            ("", None, None),
        ] {
            assert_eq!(parse(body.as_bytes(), ["name", "text"]), Ok([name, text]), "{body}");
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for (body, malformed) in [
            ("name=a&name=a", Malformed::Repeated),
            ("name=a&na%6de=b", Malformed::Repeated),
            ("name=%", Malformed::Escape),
            ("name=%4", Malformed::Escape),
            ("name=%4g", Malformed::Escape),
            ("name=%+1", Malformed::Escape),
            ("other=%zz", Malformed::Escape),
            ("name=%ff", Malformed::Text),
            ("name=%C0%AF", Malformed::Text),
            ("name=%ED%A0%80", Malformed::Text),
        ] {
            assert_eq!(parse(body.as_bytes(), ["name"]), Err(malformed), "{body}");
        }
        assert_eq!(parse(b"name=\xff", ["name"]), Err(Malformed::Text));
    }

    #[test]
    fn a_form_is_known_by_its_type() {
        assert!(is_form(b"application/x-www-form-urlencoded"));
        assert!(is_form(b"Application/X-WWW-Form-Urlencoded ; charset=UTF-8"));
        for other in ["", "text/plain", "multipart/form-data; boundary=x", "a\u{e9}"] {
            assert!(!is_form(other.as_bytes()), "{other}");
        }
    }

    /// Encodes a text as a browser does.
    fn encode(text: &str) -> String {
        let escape = |byte: u8| match byte {
            b' ' => "+".to_owned(),
            _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        text.bytes().map(escape).collect()
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(name in "\\PC{0,8}", value: String) {
            let body = format!("x=1&{}={}&y=2", encode(&name), encode(&value));
            prop_assume!(!["", "x", "y"].contains(&name.as_str()));
            let expected = [Some("1".to_owned()), Some(value), Some("2".to_owned())];
            prop_assert_eq!(parse(body.as_bytes(), ["x", &name, "y"]), Ok(expected));
        }

        #[test]
        fn any_bytes_are_read(body: Vec<u8>) {
            let _ = parse(&body, ["name", "text"]);
            is_form(&body);
        }
    }
}
