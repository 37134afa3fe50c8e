//! The input of the rules: the sources and manifests of the workspace, read once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::Source;
use super::crates::Manifest;

/// The list of the places that are not plain English, relative to the workspace.
pub(crate) const PLAIN_LIST: &str = "xtask/plain.txt";
/// The extensions of sources in C and C++.
const NATIVE: [&str; 3] = ["c", "h", "cpp"];
/// The number of commits to look at: the rule about subjects binds new commits only.
const SUBJECTS: usize = 15;

/// The workspace, as text.
pub(crate) struct Tree {
    pub(crate) sources: Vec<Source>,
    /// Markdown, except pages that runs have written.
    pub(crate) pages: Vec<Page>,
    /// Every file and folder, for links to lead to.
    pub(crate) files: BTreeSet<String>,
    /// Sources in C and C++.
    pub(crate) natives: Vec<Page>,
    pub(crate) manifests: Vec<Manifest>,
    /// The text of README.md, empty if there is no such file.
    pub(crate) readme: String,
    /// The text of xtask/plain.txt, empty if there is no such file.
    pub(crate) plain_list: String,
    /// The subjects of the newest commits, each after its hash.
    pub(crate) subjects: Vec<String>,
}

/// A file that is not Rust.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Tree {
    /// Reads the workspace at `root`.
    ///
    /// # Errors
    ///
    /// Fails if a folder or file cannot be read, or if a source is not UTF-8. The error names the
    /// file.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut paths = Vec::new();
        list(root, &mut paths)?;
        paths.sort();
        let mut tree = Self {
            sources: Vec::new(),
            pages: Vec::new(),
            files: BTreeSet::new(),
            manifests: Vec::new(),
            readme: fs::read_to_string(root.join("README.md")).unwrap_or_default(),
            natives: Vec::new(),
            plain_list: fs::read_to_string(root.join(PLAIN_LIST)).unwrap_or_default(),
            subjects: subjects(root),
        };
        list_all(root, root, &mut tree.files)?;
        for path in paths {
            let text = fs::read_to_string(&path).map_err(|error| named(&path, &error))?;
            let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if let Some(folder) = relative.strip_suffix("/Cargo.toml") {
                let package = folder.rsplit('/').next().unwrap_or(folder).to_owned();
                tree.manifests.push(Manifest { package, path: relative, text });
            } else if name_ends(&path, "md") {
                tree.pages.push(Page { path: relative, text });
            } else if NATIVE.iter().any(|extension| name_ends(&path, extension)) {
                tree.natives.push(Page { path: relative, text });
            } else {
                tree.sources.push(Source::new(relative, text));
            }
        }
        Ok(tree)
    }

    /// The text of the source at `path`.
    pub(crate) fn text_of(&self, path: &str) -> Option<&str> {
        let source = self.sources.iter().find(|source| source.path == path);
        source.map(|source| source.text.as_str())
    }

    /// The names of the packages that depend on `dependency`, in their tests or otherwise.
    pub(crate) fn packages_with(&self, dependency: &str) -> Vec<&str> {
        self.manifests
            .iter()
            .filter(|manifest| manifest.depends_on(dependency))
            .map(Manifest::name)
            .collect()
    }

    /// A workspace that keeps every rule; each test replaces one part.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            sources: Vec::new(),
            pages: Vec::new(),
            files: BTreeSet::new(),
            manifests: Vec::new(),
            readme: "cargo run --release -- compare\ncargo xtask test\n".into(),
            natives: Vec::new(),
            plain_list: String::new(),
            subjects: Vec::new(),
        }
    }
}

fn name_ends(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|its| its == extension)
}

/// Collects the sources, the pages and the members' manifests beneath `folder`, without the output
/// of builds and runs.
fn list(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| named(folder, &error))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() {
            // Recorded proptest failures and golden files are folders too, but hold no Rust.
            let is_written =
                name == "target" || name == "runs" || name.starts_with("duality-results");
            if !name.starts_with('.') && !is_written {
                list(&path, paths)?;
            }
        } else if name_ends(&path, "rs")
            || name_ends(&path, "md")
            || NATIVE.iter().any(|extension| name_ends(&path, extension))
            || (name == "Cargo.toml" && !path.with_file_name("Cargo.lock").exists())
        {
            // The folder with a Cargo.lock is no member: it is the workspace itself, or the
            // separate workspace fuzz/.
            paths.push(path);
        }
    }
    Ok(())
}

/// Collects every file and folder, relative to `root`, without the output of builds.
fn list_all(root: &Path, folder: &Path, files: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| named(folder, &error))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if name == "target" || name == ".git" {
            continue;
        }
        let relative = path.strip_prefix(root).unwrap_or(&path);
        files.insert(relative.to_string_lossy().into_owned());
        if path.is_dir() && !path.is_symlink() {
            list_all(root, &path, files)?;
        }
    }
    Ok(())
}

/// The newest commits, without merges. Outside a repository there are no commits.
fn subjects(root: &Path) -> Vec<String> {
    let newest = format!("--max-count={SUBJECTS}");
    let log = ["log", "--no-merges", "--format=%h %s", &newest];
    let told = Command::new("git").args(log).current_dir(root).output();
    let told = told.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&told).lines().map(str::to_owned).collect()
}

/// The error with the name of its file.
fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
