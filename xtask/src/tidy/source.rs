//! One Rust file as the rules see it: its text, and that text with comments, strings and characters
//! blanked.
//!
//! The blanked text has the length and the lines of the original, so an offset in one text is an
//! offset in the other. A brace in a string, or a forbidden word in a comment, is not in the
//! blanked text. A lexer is enough for the rules. A parser (syn) would cost more compile time than
//! the rest of xtask.

/// A Rust file, at a path relative to the workspace, with `/` between its parts.
pub(crate) struct Source {
    /// The path, for example `crates/poller/src/lib.rs`.
    pub(crate) path: String,
    /// The unchanged text of the file.
    pub(crate) text: String,
    /// The text with spaces in place of comments, strings and characters.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { path: path.into(), code: blank(&text), text }
    }

    /// The number, from 1, of the line that `offset` is on.
    pub(crate) fn line(&self, offset: usize) -> usize {
        line_of(&self.text, offset)
    }

    /// The crate's folder (`poller` for `crates/poller/src/lib.rs`, `xtask` for
    /// `xtask/src/main.rs`), or "" for a file outside the crates.
    pub(crate) fn package(&self) -> &str {
        let mut parts = self.path.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(name)) => name,
            (Some(name @ ("xtask" | "fuzz")), Some(_)) => name,
            _ => "",
        }
    }

    /// Whether the whole file is test code: an integration test, or the out-of-line body of a `mod
    /// tests`.
    pub(crate) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }

    /// The start of the trailing `#[cfg(test)] mod … {`, or the end of a file without such a
    /// module.
    pub(crate) fn tests_start(&self) -> usize {
        offsets(&self.code, "#[cfg(")
            .find(|&start| {
                let at_line_start = start == 0 || self.code.as_bytes()[start - 1] == b'\n';
                let predicate = &self.code[start + "#[cfg(".len()..];
                at_line_start
                    && (predicate.starts_with("test)") || predicate.starts_with("all(test,"))
                    && opens_module(&self.code[start..])
            })
            .unwrap_or(self.code.len())
    }

    /// The code that is shipped: the part of a file before its tests, and nothing of a test file.
    pub(crate) fn production(&self) -> &str {
        if self.is_test() { "" } else { &self.code[..self.tests_start()] }
    }
}

/// The line of `offset` in `text`, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// The places of `needle` in `code`.
pub(crate) fn offsets<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(needle).map(|(offset, _)| offset)
}

/// The places of `word` in `code` as a whole word (or path), not as a part of a longer word.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|&byte| is_word_byte(byte));
    offsets(code, word).filter(move |&start| {
        let bytes = code.as_bytes();
        !is_part(start.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_part(bytes.get(start + word.len()))
    })
}

/// The identifier that `code` starts with, possibly empty.
pub(crate) fn first_word(code: &str) -> &str {
    let end = code.bytes().position(|byte| !is_word_byte(byte)).unwrap_or(code.len());
    &code[..end]
}

/// The text within the bracket at the start of `code`, or all of `code` if no bracket closes it.
pub(crate) fn bracketed(code: &str) -> &str {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return &code[1..offset];
                }
            }
            _ => {}
        }
    }
    code
}

/// The end of the bracket that opens at `start`.
fn bracketed_end(code: &str, start: usize) -> usize {
    (start + bracketed(&code[start..]).len() + 2).min(code.len())
}

/// Whether the attributes at the start of `code` belong to a module with its body in this file.
fn opens_module(code: &str) -> bool {
    let mut rest = code.trim_start();
    while rest.starts_with("#[") {
        rest = rest[bracketed_end(rest, 1)..].trim_start();
    }
    let item = &rest[..rest.find([';', '{']).unwrap_or(rest.len())];
    words(item, "mod").next().is_some() && rest[item.len()..].starts_with('{')
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// `text` with as many spaces in place of every comment, string and character literal. Line ends
/// stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at).min(bytes.len());
        code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        // The loop skips a word in one step. Otherwise the `r` of `for"` would look like the mark
        // of a raw string.
        at = end.max(at + if end == at { word_length(&bytes[at..]) } else { 0 });
    }
    String::from_utf8(code).expect("comments and literals start and end between characters")
}

/// The end of the comment or literal that starts at `at`. `at` itself if none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + block_comment_length(rest),
        [b'"', ..] => at + string_length(rest),
        [b'b' | b'c', b'"', ..] => at + 1 + string_length(&rest[1..]),
        [b'b', b'\'', ..] => at + 1 + character_length(&rest[1..]),
        [b'\'', ..] => at + character_length(rest),
        [b'r', tail @ ..] => at + raw_string_length(tail).map_or(0, |length| length + 1),
        [b'b' | b'c', b'r', tail @ ..] => {
            at + raw_string_length(tail).map_or(0, |length| length + 2)
        }
        _ => at,
    }
}

/// The length in bytes of the word that `rest` starts with, at least one.
fn word_length(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| !is_word_byte(byte)).unwrap_or(rest.len()).max(1)
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// The length of `'x'` or `'\n'`; 0 for a lifetime or a label.
fn character_length(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        // The escaped character itself may be a quote, so the search starts after that character.
        return rest
            .iter()
            .skip(3)
            .position(|&byte| byte == b'\'')
            .map_or(rest.len(), |quote| quote + 4);
    }
    // A character has up to four bytes of UTF-8, and all but the first are continuation bytes.
    let continuation = rest.iter().skip(2).take_while(|&&byte| byte & 0xC0 == 0x80).count();
    if rest.get(2 + continuation) == Some(&b'\'') { 3 + continuation } else { 0 }
}

/// The length of `#*"…"#*`, the part after the `r` of a raw string. `None` for a raw identifier or
/// an ordinary word.
fn raw_string_length(tail: &[u8]) -> Option<usize> {
    let hashes = tail.iter().take_while(|&&byte| byte == b'#').count();
    if tail.get(hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'#'; hashes + 1];
    end[0] = b'"';
    let content = &tail[hashes + 1..];
    let length =
        content.windows(end.len()).position(|window| window == end).unwrap_or(content.len());
    Some(hashes + 1 + length + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_in_place() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* { /* } */ \n */ b", "a              \n    b"),
            (r#"f("}\"{", '{', '\'', 'é')"#, "f(      ,    ,     ,     )"),
            (r##"f(r#"a"b"#, br"\", c"x", b'{')"##, "f(        ,      ,     ,     )"),
            (
                "fn f<'a>(x: &'a str) { 'outer: loop {} }",
                "fn f<'a>(x: &'a str) { 'outer: loop {} }",
            ),
            ("let r#fn = b; for x in y {}", "let r#fn = b; for x in y {}"),
            ("unterminated \"string\n}", "unterminated        \n "),
        ];
        for (text, code) in cases {
            assert_eq!(blank(text), code, "{text}");
        }
    }

    #[test]
    fn tests_start_at_the_module_and_not_at_a_guarded_import() {
        let text = "#[cfg(test)]\nuse a;\n#[cfg(test)]\nmod elsewhere;\nfn f() {}\n\
                    #[cfg(all(test, loom))]\n#[rustfmt::skip]\nmod tests {\n}\n";
        let source = Source::new("crates/a/src/lib.rs", text);
        assert_eq!(source.line(source.tests_start()), 6);
        assert!(source.production().ends_with("fn f() {}\n"));
        assert_eq!(Source::new("crates/a/tests/b.rs", text).production(), "");
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(words("fn f() { often(); fn_(); }", "fn").collect::<Vec<_>>(), [0]);
        assert_eq!(first_word("fs::File"), "fs");
        assert_eq!(bracketed("{ a, {b} } c"), " a, {b} ");
    }

    #[test]
    fn packages_are_named_by_their_folder() {
        for (path, package) in
            [("crates/lab/src/a.rs", "lab"), ("xtask/src/main.rs", "xtask"), ("examples/a.rs", "")]
        {
            assert_eq!(Source::new(path, "").package(), package);
        }
    }
}
