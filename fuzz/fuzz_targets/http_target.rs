//! Targets of requests, and the files that they name.
//!
//! The path of any target stays beneath the root and has no control characters. A redirect stays on
//! the host and leads to the same directory.

#![no_main]

use duality_services::fuzzing::http::{Heard, requests, resolve};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok((path, query, redirect)) = resolve(text) else { return };
    assert!(!path.bytes().any(|byte| byte < b' ' || byte == 127), "a control character: {path:?}");
    assert!(path.split('/').all(|segment| !matches!(segment, "" | "." | "..")), "{path:?}");
    assert!(path.len() <= text.len() + "index.html".len());
    assert!(text.ends_with(&query) && !path.contains('\0'));
    assert_eq!(
        resolve(&redirect).map(|(path, query, _)| (path, query)),
        Ok((format!("{path}/index.html"), query))
    );

    // A target that the parser of heads accepts goes into a header field of the redirect.
    let request = format!("GET {text} HTTP/1.0\r\n\r\n");
    if let [Heard::Head { target, .. }, ..] = &requests(&[request.as_bytes()], 1 << 16, 0)[..]
        && target == text
    {
        assert!(redirect.bytes().all(|byte| byte.is_ascii_graphic()), "{redirect:?}");
        assert!(redirect.starts_with('/') && !redirect.starts_with("//"), "{redirect:?}");
    }
});
