//! Several builds of one program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::listed;

/// The builds of one program, if the experiment compares builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Builds {
    /// The builds. Each is compared with the first.
    pub builds: Vec<Build>,
    /// What each subject is. The subjects of one architecture follow one another, in the order of
    /// the builds.
    pub subjects: Vec<Built>,
}

/// A build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Build {
    /// The name.
    pub name: String,
    /// The program, and arguments that come before those of the lab.
    pub command: Vec<String>,
    /// The commit that the program was built from. `None` if it was built elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A build as a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Built {
    /// The name of the subject.
    pub subject: String,
    /// The name of the build.
    pub build: String,
    /// The architecture. `None` for a server that is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
}

impl Builds {
    /// The subjects of each architecture, in the order of the builds. The first one is the base.
    pub fn groups(&self) -> impl Iterator<Item = &[Built]> {
        self.subjects.chunk_by(|one, other| one.architecture == other.architecture)
    }

    /// Whether a subject is the base of its architecture, with which others are compared.
    pub fn is_base(&self, subject: &str) -> bool {
        self.groups().any(|group| group[0].subject == subject)
    }

    /// The program of a subject of ours, and its first arguments. `None` if a subject is no build,
    /// and for a server that is not ours.
    pub fn program(&self, subject: &str) -> Option<&[String]> {
        let built = self.subjects.iter().find(|one| one.subject == subject)?;
        built.architecture.as_ref()?;
        let build = self.builds.iter().find(|build| build.name == built.build)?;
        Some(&build.command)
    }

    /// The builds in words: `old and new under epoll`.
    pub(crate) fn in_words(&self) -> String {
        let names: Vec<&str> = self.builds.iter().map(|build| build.name.as_str()).collect();
        let architectures: Vec<&str> =
            self.groups().filter_map(|group| group[0].architecture.as_deref()).collect();
        match architectures.is_empty() {
            true => listed(&names),
            false => format!("{} under {}", listed(&names), listed(&architectures)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two builds, old and new, of a program of ours under these architectures. None for a server
    /// that is not ours.
    fn builds(architectures: &[&str]) -> Builds {
        let names = ["old", "new"];
        let build = |name: &str| Build {
            name: name.to_owned(),
            command: vec![format!("./{name}"), "-v".to_owned()],
            commit: None,
        };
        let built = |architecture: Option<&str>, build: &str| Built {
            subject: architecture.map_or(String::new(), |name| format!("{name} ")) + build,
            build: build.to_owned(),
            architecture: architecture.map(str::to_owned),
        };
        let under = |&architecture: &&str| names.map(|name| built(Some(architecture), name));
        let subjects = match architectures {
            [] => names.map(|name| built(None, name)).to_vec(),
            some => some.iter().flat_map(under).collect(),
        };
        Builds { builds: names.map(build).to_vec(), subjects }
    }

    #[test]
    fn each_architecture_has_a_base() {
        let ours = builds(&["epoll", "threads"]);
        let bases: Vec<&str> = ours.groups().map(|group| group[0].subject.as_str()).collect();
        assert_eq!(bases, ["epoll old", "threads old"]);
        assert!(ours.is_base("threads old") && !ours.is_base("threads new"));
        assert_eq!(ours.program("threads new").unwrap(), ["./new", "-v"]);
        assert_eq!(ours.program("epoll"), None);
        assert_eq!(ours.in_words(), "old and new under epoll and threads");
    }

    #[test]
    fn a_server_that_is_not_ours_has_its_own_command() {
        let foreign = builds(&[]);
        assert_eq!(foreign.groups().count(), 1);
        assert_eq!(foreign.program("new"), None);
        assert_eq!(foreign.in_words(), "old and new");
    }
}
