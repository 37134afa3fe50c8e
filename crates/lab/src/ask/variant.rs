//! An architecture in a plan: a plain name, or a new name with options.
//!
//! ```toml
//! architectures = [
//!     "uthreads",
//!     { name = "uthreads on epoll", architecture = "uthreads", options = ["--poller=epoll"] },
//! ]
//! ```

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::values::{LONGEST_TEXT, too_long, without_nul};
use crate::Mistake;

/// The longest name of a variant, in bytes: names are headings of tables.
const LONGEST_NAME: usize = 40;
/// The most options of a variant.
const MOST_OPTIONS: usize = 100;

/// An architecture, maybe with options of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The variant's name in results.
    pub name: String,
    /// The architecture.
    pub architecture: String,
    /// Flags of `duality serve` for this variant.
    pub options: Vec<String>,
}

/// A choice as a table.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Written {
    name: String,
    architecture: String,
    #[serde(default)]
    options: Vec<String>,
}

impl Choice {
    /// The architecture of this name, without options.
    pub fn plain(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { architecture: name.clone(), name, options: Vec::new() }
    }

    /// Whether the selection has its own name or options.
    pub fn is_variant(&self) -> bool {
        self.name != self.architecture || !self.options.is_empty()
    }

    /// Checks for errors that do not depend on the architectures.
    pub(super) fn check(&self) -> Result<(), Mistake> {
        let Self { name, architecture, options } = self;
        let problem = if name.trim().is_empty() || architecture.is_empty() {
            "an empty name says nothing: give one".into()
        } else if name.len() > LONGEST_NAME && self.is_variant() {
            format!("a name of more than {LONGEST_NAME} bytes: give a shorter one").into()
        } else if name.chars().any(char::is_control) || name.trim() != name {
            "a name is one line, without spaces around it".into()
        } else if options.len() > MOST_OPTIONS {
            format!("more than {MOST_OPTIONS} options: give fewer").into()
        } else if options.iter().chain([architecture]).any(|text| text.len() > LONGEST_TEXT) {
            too_long()
        } else {
            return options.iter().try_for_each(|text| without_nul(text));
        };
        Err(problem)
    }
}

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Choice;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(
                    "an architecture, or a table with its name, architecture and options",
                )
            }

            fn visit_str<E>(self, name: &str) -> Result<Choice, E> {
                Ok(Choice::plain(name))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Choice, A::Error> {
                let written = Written::deserialize(MapAccessDeserializer::new(map))?;
                let Written { name, architecture, options } = written;
                Ok(Choice { name, architecture, options })
            }
        }

        deserializer.deserialize_any(Either)
    }
}
