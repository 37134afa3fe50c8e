//! The architectures of one program: those of this crate, and those that the program adds.
//!
//! A program names its own in `main` (`Service::with_architectures` of the crate `duality`). The
//! program's architectures then appear in help, comparisons, results and reports.

use std::fmt;

use crate::{ALL, Architecture};

/// The architectures of a program, in the order in which they are shown.
#[derive(Clone, Copy, Default)]
pub struct Registry {
    added: &'static [&'static dyn Architecture],
}

impl Registry {
    /// The architectures of this crate, followed by the `added` ones.
    ///
    /// # Panics
    ///
    /// Panics if two architectures have the same name.
    #[must_use]
    pub fn with(added: &'static [&'static dyn Architecture]) -> Self {
        let registry = Self { added };
        for (index, one) in registry.iter().enumerate() {
            let is_taken = registry.iter().take(index).any(|other| other.name() == one.name());
            assert!(!is_taken, "two architectures are called `{}`: rename one", one.name());
        }
        registry
    }

    /// Every architecture.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn Architecture> + Clone {
        ALL.iter().chain(self.added).copied()
    }

    /// The architecture of that name.
    ///
    /// # Errors
    ///
    /// [`UnknownArchitecture`], if there is none.
    pub fn named(self, name: &str) -> Result<&'static dyn Architecture, UnknownArchitecture> {
        self.iter().find(|architecture| architecture.name() == name).ok_or_else(|| {
            let names: Vec<&str> = self.iter().map(Architecture::name).collect();
            let names = names.join(", ");
            UnknownArchitecture { name: name.to_owned(), names }
        })
    }
}

/// No architecture has this name. The message lists the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownArchitecture {
    name: String,
    names: String,
}

impl fmt::Display for UnknownArchitecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, names } = self;
        write!(formatter, "there is no architecture `{name}`: choose one of {names}")
    }
}

impl std::error::Error for UnknownArchitecture {}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter().map(Architecture::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iterative::Iterative;

    #[test]
    fn a_name_that_is_not_known_is_told_with_those_that_are() {
        let registry = Registry::default();
        assert_eq!(registry.named("epoll").unwrap().name(), "epoll");
        let problem = registry.named("magic").err().unwrap().to_string();
        assert!(problem.starts_with("there is no architecture `magic`: choose one of iterative, "));
    }

    #[test]
    #[should_panic(expected = "two architectures are called `iterative`")]
    fn no_name_is_taken_twice() {
        let _ = Registry::with(&[&Iterative]);
    }
}
