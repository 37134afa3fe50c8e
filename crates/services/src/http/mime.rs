//! The media type of a file, by the end of its name.

/// The value of `Content-Type` for the file at `path`.
///
/// Text is declared as UTF-8, because a browser would otherwise guess. A name without a known end
/// is a stream of bytes.
pub(super) fn content_type(path: &str) -> String {
    let media_type = mime_guess::from_path(path).first_raw().unwrap_or("application/octet-stream");
    let media_type = match media_type {
        // The list's entries for `.mjs` and `.woff` are obsolete (RFC 9239 and RFC 8081).
        "application/javascript" => "text/javascript",
        "application/font-woff" => "font/woff",
        other => other,
    };
    let is_text = media_type.starts_with("text/");
    if is_text { format!("{media_type}; charset=utf-8") } else { media_type.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_name() {
        for (path, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a.b/style.CSS", "text/css; charset=utf-8"),
            ("code.js", "text/javascript; charset=utf-8"),
            ("module.mjs", "text/javascript; charset=utf-8"),
            ("letters.woff", "font/woff"),
            ("letters.woff2", "font/woff2"),
            ("notes.txt", "text/plain; charset=utf-8"),
            ("picture.svg", "image/svg+xml"),
            ("picture.png", "image/png"),
            ("data.json", "application/json"),
            ("module.wasm", "application/wasm"),
            ("Makefile", "application/octet-stream"),
            ("", "application/octet-stream"),
        ] {
            assert_eq!(content_type(path), expected, "{path}");
        }
    }
}
