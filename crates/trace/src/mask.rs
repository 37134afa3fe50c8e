//! Masks what looks like a secret in a path: a trace is passed round.

use std::borrow::Cow;

/// What stands for a masked text.
const MASK: &str = "*";
/// A text of this length that mixes letters and digits is taken for a token.
const LONG: usize = 20;
/// Parts of the names of parameters that hold secrets.
const SECRET: [&str; 14] = [
    "token",
    "secret",
    "passw",
    "pwd",
    "auth",
    "session",
    "sess",
    "key",
    "sig",
    "code",
    "jwt",
    "credential",
    "mail",
    "state",
];

/// The path with its secrets masked.
pub(crate) fn masked(path: &str) -> Cow<'_, str> {
    let (route, query) = match path.split_once('?') {
        Some((route, query)) => (route, Some(query)),
        None => (path, None),
    };
    let is_plain = |parameter: &str| value(parameter).is_none_or(|value| value == MASK);
    let is_clean = route.split('/').all(|part| !is_token(part))
        && query.is_none_or(|query| query.split('&').all(is_plain));
    if is_clean {
        return Cow::Borrowed(path);
    }
    let parts = route.split('/').map(|part| if is_token(part) { MASK } else { part });
    let mut path = parts.collect::<Vec<&str>>().join("/");
    if let Some(query) = query {
        let parameter = |text: &str| match value(text) {
            Some(_) => match text.split_once('=') {
                Some((name, _)) => format!("{name}={MASK}"),
                None => MASK.to_owned(),
            },
            None => text.to_owned(),
        };
        path += "?";
        path += &query.split('&').map(parameter).collect::<Vec<String>>().join("&");
    }
    Cow::Owned(path)
}

/// The value of a parameter that is a secret.
fn value(parameter: &str) -> Option<&str> {
    let (name, value) = parameter.split_once('=').unwrap_or(("", parameter));
    let name = name.to_ascii_lowercase();
    let is_secret = SECRET.iter().any(|word| name.contains(word)) && !value.is_empty();
    (is_secret || is_token(value)).then_some(value)
}

/// Whether a text looks like a token: long, without a point before an ending, and mixed.
fn is_token(text: &str) -> bool {
    let has = |is_it: fn(&u8) -> bool| text.bytes().any(|byte| is_it(&byte));
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=%+~.".contains(&byte);
    text.len() >= LONG
        && text.bytes().all(is_of_token)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && !is_file(text)
}

/// Whether a text ends as a name of a file does, such as `picture-of-2024-05-02.jpeg`.
fn is_file(text: &str) -> bool {
    text.rsplit_once('.').is_some_and(|(name, ending)| {
        (1..=5).contains(&ending.len()) && name.contains(['-', '_']) && !name.contains('.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_the_rest_stays() {
        for (path, expected) in [
            ("/a/b?c=1", "/a/b?c=1"),
            ("/", "/"),
            ("", ""),
            ("/login?token=abc&next=/a", "/login?token=*&next=/a"),
            ("/x?access_token=1&Signature=2&q=cats", "/x?access_token=*&Signature=*&q=cats"),
            ("/x?token=", "/x?token="),
            ("/reset/9f86d081884c7d659a2feaa0c55ad015", "/reset/*"),
            ("/u/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl1", "/u/*"),
            ("/x?id=550e8400-e29b-41d4-a716-446655440000", "/x?id=*"),
            ("/x?550e8400e29b41d4a716446655440000", "/x?*"),
            ("/photos/picture-of-2024-05-02.jpeg", "/photos/picture-of-2024-05-02.jpeg"),
            ("/articles/why-we-moved-to-event-loops", "/articles/why-we-moved-to-event-loops"),
        ] {
            let found = masked(path);
            assert_eq!(found, expected, "{path}");
            // A second pass finds nothing more.
            assert_eq!(masked(&found), found, "{path}");
        }
    }
}
