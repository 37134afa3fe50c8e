//! The pages of the guide: their links, the pages that are made from sources, and copies of them.

pub(crate) mod architectures;
pub(crate) mod excerpt;
pub(crate) mod links;
