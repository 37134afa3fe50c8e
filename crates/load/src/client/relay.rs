//! The client of `relay`, which is http's: what answers is behind the relay.

use super::{Entry, http};

pub(crate) static ENTRY: Entry = Entry {
    page: Some("/"),
    port: Some(80),
    uses_all_addresses: true,
    ..Entry::plain("relay", |page| (http::ENTRY.read)(page))
};
