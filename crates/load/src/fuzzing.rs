//! Thin functions over the private parsers, for the fuzz targets in `fuzz/`. The functions exist
//! only under `cfg(fuzzing)`, which changes nothing else.

use std::io;

use crate::target::{self, Target};
use crate::{Expectation, ExpectedBody, Listed, Page, Request, Script, Statuses, Values};

/// See `client/http/fuzzing.rs`.
pub mod http {
    pub use crate::client::http::fuzzing::*;
}

/// The target in a text, if its host is an address: names are not looked up.
#[must_use]
pub fn target(text: &str) -> Option<Target> {
    let look_up =
        |place: &str| place.parse().map(|address| vec![address]).map_err(io::Error::other);
    target::parse(text, look_up).ok()
}

/// The requests in a file of URLs, each with its bytes for the first row of `values`. Instead of
/// files, bodies are the files' names. `None` if any part is refused.
#[must_use]
pub fn script(urls: &str, values: Option<&[u8]>) -> Option<Vec<(Listed, Vec<u8>)>> {
    let values = values.map(Values::parse).transpose().ok()?;
    let mut read = |path: &str| Ok(path.as_bytes().to_vec());
    let listed = Listed::parse(urls, &Request::get("/"), &mut read).ok()?;
    let page = Page { host: "example.org".to_owned(), path: "/".to_owned() };
    let bytes = |listed: &Listed| {
        let requests = [(listed.weight, listed.request.clone())];
        let script = Script::new(&requests, values.clone(), Expectation::default()).ok()?;
        Some(script.first_bytes(&page))
    };
    let written: Option<Vec<_>> = listed.iter().map(bytes).collect();
    Some(listed.into_iter().zip(written?).collect())
}

/// The statuses of `000` to `999` that a text names, and whether the text names an expected body.
#[must_use]
pub fn expectation(text: &str) -> (Option<Statuses>, bool) {
    (text.parse().ok(), text.parse::<ExpectedBody>().is_ok())
}

/// The number of visitors on a guestbook's page, if there is one.
#[must_use]
pub fn visitors(page: &[u8]) -> Option<u64> {
    crate::client::guestbook::visitors(page).ok()
}
