//! The built-in pages, which `duality serve http` serves without any set-up.

use std::{borrow::Cow, collections::HashMap, future, sync::Arc};

use super::{
    Answer, Asked, Offer, Pages, mime,
    page::{Content, Page},
    reply::Reply,
    status, target,
};
use crate::clock;

/// The pages, by their path.
pub(super) struct Demo {
    pages: HashMap<&'static str, Arc<Page>>,
}

/// The page for comparisons. It has 305 bytes, as in the measurements of Kerneis & Chroboczek 2009.
const INDEX: &[u8] = include_bytes!("../../demo/index.html");

/// The pages that are files of this crate.
const FILES: &[(&str, &[u8])] = &[
    ("index.html", INDEX),
    ("style.css", include_bytes!("../../demo/style.css")),
    ("hello.txt", include_bytes!("../../demo/hello.txt")),
    ("duality.svg", include_bytes!("../../demo/duality.svg")),
    ("robots.txt", include_bytes!("../../demo/robots.txt")),
];

/// The page for long replies: this many lines of [`LINE`] bytes, 102,400 bytes in all.
const LINES: usize = 1600;
const LINE: usize = 64;

/// When the pages were last changed: 21 November 2026. If this constant is out of date, the entity
/// tag still changes with the content.
const LAST_MODIFIED: u64 = 1_795_219_200;

/// The built-in pages by their names, for other servers that must serve the same pages.
#[must_use]
pub fn demo_files() -> Vec<(String, Vec<u8>)> {
    let files = FILES.iter().map(|&(path, body)| (path.to_owned(), body.to_vec()));
    files.chain([("large.txt".to_owned(), large_text())]).collect()
}

impl Demo {
    pub(super) fn new() -> Self {
        let files = FILES.iter().map(|&(path, body)| (path, Cow::Borrowed(body)));
        let pages = files
            .chain([("large.txt", Cow::Owned(large_text()))])
            .map(|(path, body)| (path, Arc::new(page(path, body))))
            .collect();
        Demo { pages }
    }

    /// The page at a path.
    pub(super) fn find(&self, path: &str) -> Option<Arc<Page>> {
        self.pages.get(path).cloned()
    }
}

/// Sends back the body of a POST to `/`, so that clients can test bodies.
///
/// The reply's type is bytes, and `nosniff` makes browsers accept that. Otherwise another site
/// could run its script as if the script came from here.
pub(super) struct Echo;

impl Pages for Echo {
    fn offer(&self, path: &str) -> Option<Offer> {
        (path == target::INDEX).then_some(Offer { post: Some(usize::MAX) })
    }

    fn answer<'p>(&'p self, asked: Asked<'p>) -> Answer<'p> {
        let reply = asked.is_post.then(|| {
            let (content_type, body) = ("application/octet-stream", asked.body.to_vec());
            let reply = Reply { status: &status::OK, content_type, fields: Vec::new(), body };
            reply.with("X-Content-Type-Options", "nosniff")
        });
        Box::pin(future::ready(reply))
    }
}

fn page(path: &str, body: Cow<'static, [u8]>) -> Page {
    let tag = format!("\"{:016x}\"", fingerprint(&body));
    let length = body.len() as u64;
    // RFC 9110, section 8.8.2.1: not after the date of the reply, even if this machine's clock is
    // wrong.
    let last_modified = LAST_MODIFIED.min(clock::seconds());
    Page::new(mime::content_type(path), tag, last_modified, length, Content::Memory(body))
}

/// Numbered lines, so that a wrong or missing byte can be found.
fn large_text() -> Vec<u8> {
    let mut text = Vec::with_capacity(LINES * LINE);
    for number in 1..=LINES {
        let line = format!("Line {number:4} of {LINES}: the dual of this one is an event.");
        text.extend_from_slice(format!("{line:.<width$}\n", width = LINE - 1).as_bytes());
    }
    text
}

/// FNV-1a with 64 bits: distinguishes versions of a page, and need not resist attacks.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_has_305_bytes_and_names_pages_that_exist() {
        assert_eq!(INDEX.len(), 305);
        let text = std::str::from_utf8(INDEX).unwrap();
        let demo = Demo::new();
        let mut named = 0;
        for part in text.split("href=").skip(1) {
            let path = part.split(['>', ' ']).next().unwrap().trim_matches('"');
            assert!(demo.find(path).is_some(), "{path} is named but missing");
            named += 1;
        }
        assert_eq!(named, 4);
    }

    #[test]
    fn the_large_page_has_whole_lines_of_one_length() {
        let text = large_text();
        assert_eq!(text.len(), 102_400);
        assert!(text.chunks(LINE).all(|line| line.ends_with(b".\n") && line.is_ascii()));
    }
}
