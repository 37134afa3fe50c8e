//! The pages of the guide: their links, and the pages that are made from sources.

pub(crate) mod architectures;
pub(crate) mod links;
