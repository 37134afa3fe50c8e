//! What is known about the pages of the guide: their links, and those that are made of sources.

pub(crate) mod architectures;
pub(crate) mod links;
