//! A copy of a workspace with a `Cargo.lock` of its own. The user's folder stays as it is.
//!
//! ```text
//!   target/check-tokio/copy/home/ann/shop/Cargo.lock          a file
//!                                        /src, /Cargo.toml    links to those in /home/ann/shop
//!                                   /lib                      a link, if shop depends on ../lib
//! ```
//!
//! The copy repeats the whole path, so that relative paths lead from copy to copy.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A copy of a workspace.
pub(crate) struct Copy {
    folder: PathBuf,
    root: PathBuf,
}

impl Copy {
    /// Makes a copy in `folder`, in the place of a former copy. `packages` are the folders of the
    /// packages that have no registry. `target` is left out.
    pub(crate) fn make(
        folder: &Path,
        root: &Path,
        packages: &[PathBuf],
        target: &Path,
    ) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("{}: {error}", folder.display()));
        let copy = Self { folder: folder.to_owned(), root: root.to_owned() };
        copy.fill(packages, target).map_err(failed)?;
        Ok(copy)
    }

    fn fill(&self, packages: &[PathBuf], target: &Path) -> io::Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let contains_all = |top: &&Path| packages.iter().all(|package| package.starts_with(top));
        let top = self.root.ancestors().find(contains_all).unwrap_or(&self.root);
        // From the root up to the folder that has all packages. What is copied is not linked.
        let mut copied: Option<&OsStr> = None;
        for original in self.root.ancestors().take_while(|folder| folder.starts_with(top)) {
            let copy = self.of(original);
            fs::create_dir_all(&copy)?;
            for entry in fs::read_dir(original)? {
                let entry = entry?;
                let name = entry.file_name();
                let is_lock = original == self.root && name == "Cargo.lock";
                if is_lock {
                    fs::copy(entry.path(), copy.join(name))?;
                } else if entry.path() != target && copied != Some(&name) {
                    symlink(entry.path(), copy.join(name))?;
                }
            }
            copied = original.file_name();
        }
        Ok(())
    }

    /// The manifest of the copy.
    pub(crate) fn manifest(&self) -> PathBuf {
        self.of(&self.root).join("Cargo.toml")
    }

    /// The copy of a path.
    fn of(&self, original: &Path) -> PathBuf {
        self.folder.join(original.strip_prefix("/").unwrap_or(original))
    }

    /// A message of cargo with the paths that the user knows.
    pub(crate) fn with_original_paths(&self, message: &str) -> String {
        message.replace(&self.folder.display().to_string(), "")
    }

    /// The path of a source as the user knows it: from the root if it is beneath it.
    pub(crate) fn original(&self, source: &str) -> String {
        let source = Path::new(source);
        let original = match source.strip_prefix(&self.folder) {
            Ok(rest) => Path::new("/").join(rest),
            Err(_) => source.to_owned(),
        };
        original.strip_prefix(&self.root).unwrap_or(&original).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_all_that_the_packages_need_and_its_own_lock() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("shop");
        for folder in ["shop/src", "shop/target", "lib"] {
            fs::create_dir_all(outer.path().join(folder)).unwrap();
        }
        for file in ["shop/Cargo.toml", "shop/Cargo.lock", "shop/src/main.rs", "lib/Cargo.toml"] {
            fs::write(outer.path().join(file), file).unwrap();
        }
        let target = root.join("target");
        let make = |packages: &[PathBuf]| {
            Copy::make(&target.join("copy"), &root, packages, &target).unwrap()
        };
        let alone = make(std::slice::from_ref(&root));
        assert!(!alone.of(&outer.path().join("lib")).exists());
        let copy = make(&[root.clone(), outer.path().join("lib")]);
        assert!(copy.of(&root).join("../lib/Cargo.toml").is_file());
        assert!(copy.manifest().is_file() && !copy.of(&target).exists());
        fs::write(copy.of(&root).join("Cargo.lock"), "changed").unwrap();
        assert_eq!(fs::read_to_string(root.join("Cargo.lock")).unwrap(), "shop/Cargo.lock");
        let main = copy.of(&root.join("src/main.rs"));
        assert_eq!(copy.original(main.to_str().unwrap()), "src/main.rs");
        assert_eq!(copy.original("src/main.rs"), "src/main.rs");
        let copied = format!("required by shop ({})", copy.of(&root).display());
        let original = format!("required by shop ({})", root.display());
        assert_eq!(copy.with_original_paths(&copied), original);
        let lib = outer.path().join("lib/Cargo.toml");
        assert_eq!(copy.original(copy.of(&lib).to_str().unwrap()), lib.to_str().unwrap());
    }
}
