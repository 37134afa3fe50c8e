//! The tree of dependencies, as `cargo metadata` tells it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The source of packages of crates.io.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A package of the tree.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The folder of the package.
    pub(crate) folder: PathBuf,
    source: Option<String>,
    is_member: bool,
    /// The identities of the packages that this package uses.
    uses: Vec<String>,
}

impl Package {
    /// The name and the version, for a report.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    fn is_of_crates_io(&self) -> bool {
        self.source.as_deref() == Some(CRATES_IO)
    }

    /// The minor version, if the major version is 1.
    pub(crate) fn minor(&self) -> Option<u64> {
        self.version.strip_prefix("1.")?.split('.').next()?.parse().ok()
    }
}

/// All packages, by cargo's identities.
#[derive(Debug)]
pub(crate) struct Tree(BTreeMap<String, Package>);

impl Tree {
    pub(crate) fn new(metadata: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let members: Vec<String> = list(&metadata["workspace_members"]).iter().map(text).collect();
        let mut uses: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let used = list(&node["dependencies"]).iter().map(text).collect();
            uses.insert(text(&node["id"]), used);
        }
        let packages = list(&metadata["packages"]).into_iter().map(|package| {
            let id = text(&package["id"]);
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            let package = Package {
                name: text(&package["name"]),
                version: text(&package["version"]),
                folder: manifest.parent().map(Path::to_owned).unwrap_or_default(),
                source: package["source"].as_str().map(str::to_owned),
                is_member: members.contains(&id),
                uses: uses.remove(&id).unwrap_or_default(),
            };
            (id, package)
        });
        Self(packages.collect())
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Package> {
        self.0.get(id)
    }

    /// The crate of this name with major version 1, if it comes from crates.io.
    pub(crate) fn first_version_of(&self, name: &str) -> Option<&Package> {
        self.0.values().find(|package| {
            package.name == name && package.minor().is_some() && package.is_of_crates_io()
        })
    }

    /// Whether a crate of this name and version has come in the place of that of crates.io.
    pub(crate) fn has_patch(&self, name: &str, version: &str) -> bool {
        self.0.values().any(|package| {
            package.name == name && package.version == version && !package.is_of_crates_io()
        })
    }

    /// The folders of the packages that have no registry.
    pub(crate) fn local_folders(&self) -> Vec<PathBuf> {
        let local = self.0.values().filter(|package| package.source.is_none());
        local.map(|package| package.folder.clone()).collect()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.0.values().filter(|package| package.is_member)
    }

    /// The packages that use another tokio of crates.io than `version`, with that tokio.
    pub(crate) fn users_of_another_tokio(&self) -> Vec<(&Package, &Package)> {
        let mut found = Vec::new();
        for package in self.0.values() {
            for used in package.uses.iter().filter_map(|id| self.get(id)) {
                if used.name == "tokio" && used.is_of_crates_io() {
                    found.push((package, used));
                }
            }
        }
        found
    }

    /// The members that use a failed package, and so were not compiled.
    pub(crate) fn members_above(&self, failed: &[&str]) -> Vec<&Package> {
        let mut reached: Vec<&str> = failed.to_vec();
        loop {
            let is_new = |id: &str, package: &Package| {
                !reached.contains(&id)
                    && package.uses.iter().any(|used| reached.contains(&used.as_str()))
            };
            let new: Vec<&str> = self
                .0
                .iter()
                .filter(|(id, package)| is_new(id, package))
                .map(|(id, _)| id.as_str())
                .collect();
            if new.is_empty() {
                break;
            }
            reached.extend(new);
        }
        let above = reached.into_iter().filter(|id| !failed.contains(id));
        above.filter_map(|id| self.get(id)).filter(|package| package.is_member).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, version: &str, source: Option<&str>) -> Value {
        json!({
            "id": format!("{name}@{version}"), "name": name, "version": version, "source": source,
            "manifest_path": format!("/home/ann/{name}/Cargo.toml"),
        })
    }

    fn tree() -> Tree {
        Tree::new(&json!({
            "packages": [
                package("shop", "0.1.0", None),
                package("old", "0.3.0", Some(CRATES_IO)),
                package("tokio", "0.2.25", Some(CRATES_IO)),
                package("tokio", "1.54.1", Some("sparse+https://index.crates.io/")),
                package("tokio", "1.54.99", None),
                package("bytes", "1.12.1", Some(CRATES_IO)),
            ],
            "workspace_members": ["shop@0.1.0"],
            "resolve": { "nodes": [
                { "id": "shop@0.1.0", "dependencies": ["old@0.3.0", "tokio@1.54.99"] },
                { "id": "old@0.3.0", "dependencies": ["tokio@0.2.25"] },
            ]},
        }))
    }

    #[test]
    fn tokios_are_told_apart() {
        let tree = tree();
        assert!(tree.has_patch("tokio", "1.54.99") && !tree.has_patch("tokio", "1.40.0"));
        assert!(tree.first_version_of("tokio").is_none(), "it is patched");
        assert_eq!(tree.first_version_of("bytes").unwrap().minor(), Some(12));
        let others = tree.users_of_another_tokio();
        let [(user, tokio)] = others[..] else { panic!("{others:?}") };
        assert_eq!((user.label(), tokio.label()), ("old 0.3.0".into(), "tokio 0.2.25".into()));
    }

    #[test]
    fn members_above_a_failed_crate_are_not_compiled() {
        let tree = tree();
        let above: Vec<String> =
            tree.members_above(&["tokio@0.2.25"]).iter().map(|package| package.label()).collect();
        assert_eq!(above, ["shop 0.1.0"]);
        assert!(tree.members_above(&["shop@0.1.0"]).is_empty());
    }
}
