//! The patch: the lines of `Cargo.toml` that put Duality's crate in the place of tokio.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The version of the crate named tokio in patch/tokio.
pub(crate) const VERSION: &str = "1.54.99";
/// The version of tokio that has the interface of the patch, and its minor version.
pub(crate) const INTERFACE: (&str, u64) = ("1.54", 54);
const REPOSITORY: &str = "https://github.com/duality-dev/duality";

/// Where the patch comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Git,
    /// The folder of the crate, as an absolute path.
    Folder(PathBuf),
}

impl Source {
    /// The patch of a checkout of Duality. Without a checkout, the patch comes by git.
    pub(crate) fn of(checkout: Option<&Path>) -> Result<Self, Failure> {
        let Some(checkout) = checkout else { return Ok(Self::Git) };
        let folder = checkout.join("patch/tokio");
        if !folder.join("Cargo.toml").is_file() {
            let problem = "no patch/tokio is there; name a checkout of Duality";
            return Err(Failure::misuse(format!("--patch {}: {problem}", checkout.display())));
        }
        let unreadable =
            |error| Failure::misuse(format!("--patch {}: {error}", checkout.display()));
        folder.canonicalize().map(Self::Folder).map_err(unreadable)
    }

    /// The lines for `Cargo.toml`. Without a version of bytes, the genuine tokio has a crate bytes
    /// of its own.
    pub(crate) fn lines(&self, bytes: Option<&str>) -> String {
        let tokio = match self {
            Self::Git => format!("git = \"{REPOSITORY}\""),
            // Debug quotes as TOML does.
            Self::Folder(folder) => format!("path = {:?}", folder.display().to_string()),
        };
        let mut lines = format!("[patch.crates-io]\ntokio = {{ {tokio} }}\n");
        if let Some(version) = bytes {
            lines += "[patch.\"sparse+https://index.crates.io/\"]\n";
            lines += &format!("bytes = {{ version = \"={version}\", registry = \"crates-io\" }}\n");
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn the_version_is_that_of_the_patch() {
        let manifest = std::fs::read_to_string(root().join("patch/tokio/Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("\nversion = \"{VERSION}\"\n")), "{VERSION}");
        let (version, minor) = INTERFACE;
        assert_eq!(version, format!("1.{minor}"));
        assert!(VERSION.starts_with(&format!("{version}.")));
    }

    #[test]
    fn the_lines_are_those_of_the_page() {
        let page = std::fs::read_to_string(root().join("docs/tokio-patch.md")).unwrap();
        assert!(page.contains(&Source::Git.lines(None)));
    }

    #[test]
    fn a_checkout_is_looked_at() {
        assert!(matches!(Source::of(Some(&root())), Ok(Source::Folder(_))));
        let elsewhere = tempfile::tempdir().unwrap();
        assert!(matches!(Source::of(Some(elsewhere.path())), Err(Failure::Misuse(_))));
    }
}
