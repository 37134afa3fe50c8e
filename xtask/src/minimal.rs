//! The patch with the oldest versions of its dependencies that the manifests allow. Nightly's cargo
//! chooses these versions, and the stable compiler compiles with them. A user's `Cargo.lock` may
//! keep old versions, and the patch must compile with each version that it asks for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use crate::Workspace;
use crate::failure::{Failure, Result};
use crate::files::{read, write};
use crate::fuzz::{nightly, nightly_host};
use crate::outcome::{Outcome, cargo_command, execute};

/// What this command does, for the help.
pub(crate) const ABOUT: &str =
    "patch/tokio compiles with its oldest versions; nightly chooses; a part of tokio-patch";

/// The patch, and the crates of the workspace that it is made of.
const CRATES: [&str; 4] = ["patch/tokio", "crates/runtime", "crates/poller", "crates/fiber"];

/// Compiles the patch with the oldest versions.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    nightly_host()?;
    let read = |path: &str| read(&workspace.root.join(path));
    let manifests = CRATES.iter().map(|folder| read(&format!("{folder}/Cargo.toml")));
    let oldest = oldest(&read("Cargo.toml")?, &manifests.collect::<Result<Vec<_>>>()?)?;
    let patch = workspace.root.join(CRATES[0]);
    let folder = workspace.target.join("tokio-patch/minimal");
    write(&folder.join("Cargo.toml"), &manifest(&oldest, &patch.to_string_lossy()))?;
    write(&folder.join("src/lib.rs"), "")?;
    let finish = |mut command: Command, arguments: &[&str]| {
        command.args(arguments).current_dir(&folder);
        execute(command.env("CARGO_TARGET_DIR", workspace.target.join("tokio-patch")))
    };
    finish(nightly("cargo"), &["generate-lockfile", "-Z", "direct-minimal-versions"])?;
    finish(cargo_command(workspace), &["check", "--locked"])
}

/// The oldest version of each dependency, by its name. A dependency has one oldest version.
fn oldest(root: &str, manifests: &[String]) -> Result<BTreeMap<String, String>> {
    let shared: BTreeMap<_, _> = section(root, "[workspace.dependencies]").collect();
    let mut found = BTreeMap::new();
    let lines = manifests.iter().flat_map(|manifest| section(manifest, "[dependencies]"));
    for (name, wanted) in lines {
        let (name, wanted) = match name.strip_suffix(".workspace") {
            Some(name) => (name, shared.get(name).copied().unwrap_or_default()),
            None => (name, wanted),
        };
        let is_left_out = ["path = ", "optional = true", "package = "]
            .iter()
            .any(|property| wanted.contains(property));
        // The first text in quotes is the version: `"1"`, or `{ version = "1", … }`.
        let Some(version) = wanted.split('"').nth(1).filter(|_| !is_left_out) else { continue };
        let before = found.insert(name.to_owned(), version.to_owned());
        if let Some(before) = before.filter(|before| before != version) {
            let remedy = format_args!("ask for one version, and not for {before} and {version}");
            return Err(Failure::from(name).remedy(remedy));
        }
    }
    Ok(found)
}

/// The lines `name = wanted` of a section.
fn section<'text>(
    manifest: &'text str,
    heading: &str,
) -> impl Iterator<Item = (&'text str, &'text str)> {
    let after = manifest.lines().skip_while(move |line| *line != heading).skip(1);
    let lines = after.take_while(|line| !line.starts_with('['));
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "))
}

/// The manifest of a program that has the patch, and the same dependencies as the patch.
fn manifest(oldest: &BTreeMap<String, String>, patch: &str) -> String {
    let bytes = &oldest["bytes"];
    let mut text = format!(
        "[package]\nname = \"minimal\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
         [patch.crates-io]\ntokio = {{ path = \"{patch}\" }}\n\
         [patch.\"sparse+https://index.crates.io/\"]\n\
         bytes = {{ version = \"={bytes}\", registry = \"crates-io\" }}\n\
         [dependencies]\ntokio = {{ version = \"1.54.99\", features = [\"full\"] }}\n"
    );
    for (name, version) in oldest {
        let _ = writeln!(text, "{name} = {{ version = \"{version}\", default-features = false }}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.dependencies]\nour = { path = \"our\", version = \"0.1\" }\n\
                        libc = { version = \"0.2.9\", default-features = false }\n[profile.dev]\n";

    fn found(manifests: &[&str]) -> Result<String> {
        let manifests = Vec::from_iter(manifests.iter().map(|lines| {
            format!(
                "[package]\nname = \"a\"\n[dependencies]\n{lines}\n[dev-dependencies]\nb = \"1\"\n"
            )
        }));
        Ok(format!("{:?}", oldest(ROOT, &manifests)?))
    }

    #[test]
    fn versions_come_from_the_crate_or_from_the_workspace() {
        let lines = "# A comment.\nour.workspace = true\nlibc.workspace = true\nbytes = \"1.2\"\n\
                     hyper = { version = \"1\", optional = true }";
        assert_eq!(found(&[lines, lines]).unwrap(), r#"{"bytes": "1.2", "libc": "0.2.9"}"#);
    }

    #[test]
    fn two_versions_of_one_dependency_are_an_error() {
        let two = found(&["libc.workspace = true", "libc = { version = \"0.2.8\" }"]);
        assert_eq!(
            two.unwrap_err().to_string(),
            "libc: ask for one version, and not for 0.2.9 and 0.2.8"
        );
    }
}
