//! Rules about the crates and the workspace: dependencies between crates, manifests, and commits.

use super::{Tree, Violation};

/// The crates of the workspace that each crate may name outside its tests. Arrows point one way: a
/// crate may use crates below it.
///
/// ```text
///   duality        conformance, tokio
///      |
///    costs ──────────────────────────┐
///     lab ── load, trace       handwritten
///              │                ┌───┴────┐
///              │       architectures   services
///              │                └───┬────┘
///              └─────────────── runtime
///                           poller, fiber
///
///   duality, engine ── patcher        engine is built by itself, and carried by duality
/// ```
const MAY_USE: &[(&str, &[&str])] = &[
    ("poller", &[]),
    ("fiber", &[]),
    ("runtime", &["poller", "fiber"]),
    ("services", &["runtime"]),
    ("architectures", &["runtime", "poller"]),
    ("handwritten", &["poller", "runtime", "services", "architectures"]),
    ("kit", &["poller", "runtime"]),
    ("outside", &["simulate"]),
    ("simulate", &["poller", "runtime", "services", "architectures"]),
    ("macros", &[]),
    ("trace", &[]),
    ("load", &["runtime", "poller", "trace"]),
    ("lab", &["load", "runtime", "trace"]),
    ("costs", &["runtime", "poller", "architectures", "services", "lab"]),
    ("patcher", &[]),
    ("engine", &["patcher"]),
    (
        "duality",
        &[
            "patcher",
            "poller",
            "fiber",
            "macros",
            "runtime",
            "services",
            "architectures",
            "handwritten",
            "trace",
            "load",
            "lab",
            "costs",
            "simulate",
        ],
    ),
    (
        "conformance",
        &[
            "patcher",
            "poller",
            "fiber",
            "runtime",
            "services",
            "architectures",
            "load",
            "lab",
            "costs",
            "trace",
            "duality",
        ],
    ),
    ("tokio", &["poller", "runtime", "architectures", "duality"]),
    ("cargo-duality", &[]),
    ("xtask", &[]),
];

/// The crates that talk to the kernel or switch stacks; all others are safe Rust throughout.
const MAY_BE_UNSAFE: &[&str] =
    &["poller", "fiber", "runtime", "architectures", "engine", "outside"];

/// The most characters of a subject. A list of commits shows no more.
const SUBJECT: usize = 72;

/// The commands that a newcomer types. The README must not lose them.
const COMMANDS: [&str; 2] = ["cargo run --release -- compare", "cargo xtask test"];

/// One `Cargo.toml` of the workspace.
pub(crate) struct Manifest {
    /// The crate's folder, `poller` for `crates/poller`.
    pub(crate) package: String,
    /// The path, relative to the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Manifest {
    /// The name that cargo knows the crate by.
    pub(crate) fn name(&self) -> &str {
        let is_name = |entry: &Entry<'_>| entry.table == "package" && entry.key == "name";
        entries(&self.text)
            .find(is_name)
            .map_or(&self.package, |entry| entry.value.trim_matches('"'))
    }

    /// Whether the crate depends on `name`, in its tests or otherwise.
    pub(crate) fn depends_on(&self, name: &str) -> bool {
        dependencies(&self.text).any(|dependency| dependency.name == name)
    }
}

pub(crate) fn safe(tree: &Tree) -> Vec<Violation> {
    let is_root = |path: &str| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    tree.sources
        .iter()
        .filter(|source| !source.package().is_empty() && is_root(&source.path))
        .filter(|source| !MAY_BE_UNSAFE.contains(&source.package()))
        .filter(|source| !source.code.contains("#![forbid(unsafe_code)]"))
        .map(|source| {
            Violation::new(
                &source.path,
                0,
                "add `#![forbid(unsafe_code)]`: unsafe code lives in few crates",
            )
        })
        .collect()
}

pub(crate) fn direction(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for manifest in &tree.manifests {
        let Some((_, allowed)) = MAY_USE.iter().find(|(package, _)| *package == manifest.package)
        else {
            let message = "this crate has no place in the order of dependencies: give it one in xtask/src/tidy/crates.rs";
            found.push(Violation::new(&manifest.path, 0, message));
            continue;
        };
        for (line, used) in workspace_dependencies(&manifest.text) {
            if !allowed.contains(&used) {
                let package = &manifest.package;
                let message = format!(
                    "{package} may not depend on {used}: see ARCHITECTURE.md, and move the code to where it may"
                );
                found.push(Violation::new(&manifest.path, line, message));
            }
        }
    }
    found
}

pub(crate) fn manifest(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for manifest in &tree.manifests {
        let has = |table: &str, key: &str, accept: fn(&str) -> bool| {
            entries(&manifest.text)
                .any(|entry| entry.table == table && entry.key == key && accept(entry.value))
        };
        if !has("package", "description", |value| value.trim_matches('"').trim().len() > 1) {
            found.push(Violation::new(
                &manifest.path,
                0,
                "`description` says in one line what the crate is for",
            ));
        }
        if !has("lints", "workspace", |value| value == "true") {
            found.push(Violation::new(&manifest.path, 0, "add `[lints] workspace = true`"));
        }
        let is_published = !has("package", "publish", |value| value == "false");
        for key in ["keywords", "categories", "repository", "license"] {
            let names = [key.to_owned(), format!("{key}.workspace")];
            if is_published && !names.iter().any(|name| has("package", name, |_| true)) {
                let message =
                    format!("a published crate has a key `{key}`: {key}.workspace = true");
                found.push(Violation::new(&manifest.path, 0, message));
            }
        }
    }
    found
}

pub(crate) fn subject(tree: &Tree) -> Vec<Violation> {
    let too_long = |line: &String| {
        let (hash, subject) = line.split_once(' ')?;
        let length = subject.chars().count();
        let message = format!("{length} characters, {SUBJECT} at most: `git commit --amend`");
        (length > SUBJECT).then(|| Violation::new(format!("the commit {hash}"), 0, message))
    };
    tree.subjects.iter().filter_map(too_long).collect()
}

pub(crate) fn readme(tree: &Tree) -> Vec<Violation> {
    COMMANDS
        .into_iter()
        .filter(|command| !tree.readme.contains(command))
        .map(|command| Violation::new("README.md", 0, format!("show the command `{command}`")))
        .collect()
}

/// A line `key = value` of a manifest, with the table that it stands in.
struct Entry<'a> {
    line: usize,
    table: &'a str,
    key: &'a str,
    value: &'a str,
}

/// The entries of a manifest. The function is no TOML parser: it reads manifests with one key a
/// line.
fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    let mut table = "";
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            table = header.split(']').next().unwrap_or_default();
            // `[dependencies.x]` names a dependency as `x = …` under `[dependencies]` does.
            return Some(Entry { line: index + 1, table, key: "", value: "" });
        }
        let (key, value) = line.split_once('=')?;
        Some(Entry { line: index + 1, table, key: key.trim(), value: value.trim() })
    })
}

/// A dependency that a manifest names, with the table (`dependencies`,
/// `target.'cfg(unix)'.dev-dependencies`) that it stands in.
struct Dependency<'a> {
    line: usize,
    table: &'a str,
    name: &'a str,
}

fn dependencies(text: &str) -> impl Iterator<Item = Dependency<'_>> {
    entries(text).filter_map(|entry| {
        let (table, name) = match entry.key {
            "" => entry.table.rsplit_once('.')?,
            key => (entry.table, key.split('.').next().unwrap_or(key)),
        };
        table.ends_with("dependencies").then_some(Dependency { line: entry.line, table, name })
    })
}

/// The crates of this workspace that a manifest depends on outside its tests, by folder, with their
/// lines.
fn workspace_dependencies(text: &str) -> impl Iterator<Item = (usize, &str)> {
    dependencies(text)
        .filter(|dependency| !dependency.table.ends_with("dev-dependencies"))
        .filter_map(|dependency| {
            let folder = if dependency.name == "duality" {
                Some("duality")
            } else {
                dependency.name.strip_prefix("duality-")
            };
            Some((dependency.line, folder?))
        })
}

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::*;

    fn tree(package: &str, text: &str) -> Tree {
        let manifest = Manifest {
            package: package.into(),
            path: format!("crates/{package}/Cargo.toml"),
            text: text.into(),
        };
        Tree { manifests: vec![manifest], ..Tree::sample() }
    }

    #[test]
    fn arrows_point_one_way_in_every_notation() {
        let text = "[dependencies]\nduality-runtime.workspace = true\nduality-architectures.workspace = true\n\
                    [build-dependencies]\nduality-lab = { path = \"../lab\" }\n[dependencies.duality-load]\nworkspace = true\n\
                    [target.'cfg(unix)'.dependencies]\nduality = \"1\"\n[dev-dependencies]\nduality-fiber.workspace = true\n";
        let lines: Vec<usize> =
            direction(&tree("services", text)).iter().map(|violation| violation.line).collect();
        assert_eq!(lines, [3, 5, 6, 9]);
    }

    #[test]
    fn dependencies_of_tests_are_known() {
        let text = "[package]\nname = \"duality-runtime\"\n[target.'cfg(loom)'.dev-dependencies]\nloom = \"0.7\"\n";
        let tree = tree("runtime", text);
        assert_eq!(tree.packages_with("loom"), ["duality-runtime"]);
        assert_eq!(tree.packages_with("slab"), [""; 0]);
    }

    #[test]
    fn a_new_crate_is_given_its_place() {
        assert!(direction(&tree("novelty", ""))[0].message.contains("no place"));
    }

    #[test]
    fn a_manifest_has_a_description_and_the_lints() {
        let found = |text: &str| manifest(&tree("fiber", text)).len();
        let good =
            "[package]\npublish = false\ndescription = \"Stacks\"\n[lints]\nworkspace = true\n";
        assert_eq!(found(good), 0);
        assert_eq!(found(&good.replace("Stacks", "")), 1);
        assert_eq!(found(&good.replace("[lints]", "[other]")), 1);
    }

    #[test]
    fn a_published_crate_can_be_found() {
        let found = |text: &str| manifest(&tree("fiber", text)).len();
        let good = "[package]\ndescription = \"Stacks\"\nkeywords.workspace = true\n\
            categories = []\nrepository.workspace = true\nlicense.workspace = true\n\
            [lints]\nworkspace = true\n";
        assert_eq!(found(good), 0);
        assert_eq!(found(&good.replace("keywords", "words")), 1);
    }

    #[test]
    fn unsafe_code_lives_in_few_crates() {
        let lib =
            |package: &str, text: &str| Source::new(format!("crates/{package}/src/lib.rs"), text);
        let commented = lib("load", "// #![forbid(unsafe_code)]\n");
        let sources = vec![lib("fiber", ""), lib("lab", "#![forbid(unsafe_code)]\n"), commented];
        let found = safe(&Tree { sources, ..Tree::sample() });
        assert_eq!((found.len(), found[0].path.as_str()), (1, "crates/load/src/lib.rs"));
    }

    #[test]
    fn subjects_fit_into_a_list() {
        let subject = |length| format!("0123abc {}", "é".repeat(length));
        let subjects = vec![subject(SUBJECT), subject(SUBJECT + 1)];
        let found = super::subject(&Tree { subjects, ..Tree::sample() });
        assert_eq!(found.len(), 1);
        assert!(found[0].message.starts_with("73 characters"), "{found:?}");
    }

    #[test]
    fn the_two_commands_are_there() {
        assert_eq!(readme(&Tree { readme: "cargo xtask test".into(), ..Tree::sample() }).len(), 1);
    }
}
