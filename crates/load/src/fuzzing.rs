//! Thin functions over the private parsers, for the fuzz targets in `fuzz/`. They exist only under
//! `cfg(fuzzing)`, which changes nothing else.

use std::io;

use crate::target::{self, Target};

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

/// The number of visitors on a guestbook's page, if there is one.
#[must_use]
pub fn visitors(page: &[u8]) -> Option<u64> {
    crate::client::guestbook::visitors(page).ok()
}
