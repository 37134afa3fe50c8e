//! A mistake in what a user wrote, without its place.

use std::borrow::Cow;

/// What is wrong with a value, and what to write instead, in one phrase.
///
/// It names no place: the caller knows the flag, the key or the line, and puts it before the
/// phrase. All parsers of the workspace return this type. It is in this crate, because all crates
/// that read what users write depend on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mistake(Cow<'static, str>);

impl From<&'static str> for Mistake {
    fn from(phrase: &'static str) -> Self {
        Self(phrase.into())
    }
}

impl From<String> for Mistake {
    fn from(phrase: String) -> Self {
        Self(phrase.into())
    }
}
