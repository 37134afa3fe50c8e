//! `cargo duality check-tokio`: compiles a copy of the workspace with the patch. The compiler is
//! the judge, so no list of tokio's items is needed.
//!
//! ```text
//!   Cargo.lock ─▶ copy ─ cargo update ─▶ the patch in tokio's place ─ cargo check ─▶ errors
//!                                                       the workspace itself ─ less ─┤
//!                                                                                    ▼ report
//! ```

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cargo::{self, cargo};
use crate::copy::Copy;
use crate::failure::Failure;
use crate::json::Missing;
use crate::messages::{self, Error};
use crate::patch::{INTERFACE, Source, VERSION};
use crate::remedies::remedy;
use crate::report::Report;
use crate::scan;
use crate::tree::{Package, Tree};

#[derive(clap::Args)]
#[command(after_help = "\
The check compiles a copy of this workspace with the patch. Your files and your
Cargo.lock stay as they are. Then it prints the lines for Cargo.toml.

Exit code 0: all of it compiles. 1: something is missing, or cannot be compiled.
2: there is nothing to check here, such as no Cargo.lock.

Examples:
  cargo duality check-tokio
  cargo duality check-tokio -- --all-features --all-targets   # tests, too
  cargo duality check-tokio --patch ~/src/duality             # not by git

docs/tokio-patch.md says what the patch is, and what it lacks.")]
pub(crate) struct Arguments {
    /// The Cargo.toml to check [default: that of this folder]
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// A checkout of Duality to take the patch from [default: its repository, by git]
    #[arg(long, value_name = "FOLDER")]
    patch: Option<PathBuf>,
    /// Print JSON (format version 1)
    #[arg(long)]
    json: bool,
    /// Arguments for `cargo check`
    #[arg(last = true, value_name = "ARGUMENTS OF CARGO CHECK")]
    arguments: Vec<OsString>,
}

/// A workspace that depends on tokio.
struct Workspace {
    manifest: PathBuf,
    root: PathBuf,
    tree: Tree,
    /// Cargo's target directory, and the folder of this command in it.
    target: PathBuf,
    own: PathBuf,
    /// The version of tokio in `Cargo.lock`.
    locked: String,
}

/// A copy of the workspace with the patch.
struct Patched {
    copy: Copy,
    /// The arguments by which cargo takes the patch.
    config: Vec<OsString>,
    tree: Tree,
    /// The lines for the user's `Cargo.toml`.
    lines: String,
    bytes: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let source = Source::of(arguments.patch.as_deref())?;
    let workspace = Workspace::open(arguments.manifest_path.as_deref())?;
    let mut report = workspace.report(&source);
    match workspace.patch(&source)? {
        Err(refusal) => report.refused = Some(refusal),
        Ok(patched) => {
            report.lines.clone_from(&patched.lines);
            report.bytes.clone_from(&patched.bytes);
            report.add_other_tokios(&patched.tree);
            workspace.compile(&patched, &arguments.arguments, &mut report)?;
        }
    }
    println!("{}", if arguments.json { report.json() } else { report.text() });
    Ok(ExitCode::from(u8::from(!report.works())))
}

impl Workspace {
    fn open(manifest: Option<&Path>) -> Result<Self, Failure> {
        let manifest = PathBuf::from(cargo::locate(manifest)?);
        let root = manifest.parent().map(Path::to_owned).unwrap_or_default();
        if !root.join("Cargo.lock").is_file() {
            let remedy = "run `cargo generate-lockfile`, so that the check sees your versions";
            return Err(Failure::misuse(format!("{}: no Cargo.lock; {remedy}", root.display())));
        }
        let metadata = cargo::metadata(&manifest, &["--locked".into()])?;
        let tree = Tree::new(&metadata);
        let target = PathBuf::from(metadata["target_directory"].as_str().unwrap_or_default());
        let Some(tokio) = tree.first_version_of("tokio") else {
            let why = match tree.has_patch("tokio", VERSION) {
                true => "the patch is in place already; `cargo check` says whether it compiles",
                false => "nothing here depends on tokio 1 of crates.io, so nothing can be patched",
            };
            return Err(Failure::misuse(format!("{}: {why}", manifest.display())));
        };
        let locked = tokio.version.clone();
        Ok(Self { own: target.join("check-tokio"), manifest, root, tree, target, locked })
    }

    fn report(&self, source: &Source) -> Report {
        let tokio = self.tree.first_version_of("tokio");
        let mut notes = scan::notes(self.tree.members().map(|member| &*member.folder), &self.root);
        let lock = fs::read_to_string(self.root.join("Cargo.lock")).unwrap_or_default();
        notes.extend(scan::unused_patch(&lock));
        Report {
            locked: self.locked.clone(),
            is_newer: tokio.and_then(Package::minor) > Some(INTERFACE.1),
            lines: source.lines(bytes_of(&self.tree).as_deref()),
            bytes: bytes_of(&self.tree),
            notes,
            ..Report::default()
        }
    }

    /// Puts the patch into a copy. Fails in the inner result if a package does not take the patch's
    /// version.
    fn patch(&self, source: &Source) -> Result<Result<Patched, String>, Failure> {
        let locals = self.tree.local_folders();
        let copy = Copy::make(&self.own.join("copy"), &self.root, &locals, &self.target)?;
        let file = self.own.join("patch.toml");
        let write = |lines: &str| {
            fs::write(&file, lines)
                .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))
        };
        let manifest = copy.manifest();
        let config = vec!["--config".into(), file.clone().into_os_string()];
        let failed = |error: &dyn std::fmt::Display| {
            let remedy = match source {
                Source::Git => "; --patch takes it from a checkout of Duality",
                Source::Folder(_) => "",
            };
            Failure::failed(format!("the patch cannot be put in: {error}{remedy}"))
        };

        let mut version = bytes_of(&self.tree);
        write(&source.lines(version.as_deref()))?;
        // A lock keeps tokio in its place, against a patch.
        let mut update = cargo("update");
        update.arg("--manifest-path").arg(&manifest).args(&config);
        update.args(["--package", &format!("tokio@{}", self.locked), "--precise", VERSION]);
        match cargo::output(&mut update) {
            Err(error) if error.to_string().contains("failed to select a version") => {
                return Ok(Err(copy.with_original_paths(&error.to_string())));
            }
            other => drop(other.map_err(|error| failed(&error))?),
        }
        let metadata = || cargo::metadata(&manifest, &config).map(|found| Tree::new(&found));
        let mut tree = metadata().map_err(|error| failed(&error))?;
        if version.is_none() {
            // Only the patch depends on bytes.
            version = bytes_of(&tree);
            write(&source.lines(version.as_deref()))?;
            tree = metadata().map_err(|error| failed(&error))?;
        }
        if !tree.has_patch("tokio", VERSION) {
            return Err(failed(&format_args!("cargo has not taken tokio {VERSION}")));
        }
        let lines = source.lines(version.as_deref());
        Ok(Ok(Patched { copy, config, tree, lines, bytes: version }))
    }

    /// Compiles the copy. What the workspace itself does not compile either is no fault of the
    /// patch.
    fn compile(
        &self,
        patched: &Patched,
        arguments: &[OsString],
        report: &mut Report,
    ) -> Result<(), Failure> {
        let target = [OsString::from("--target-dir"), self.own.join("build").into_os_string()];
        let all = [&patched.config[..], &target, arguments].concat();
        let (messages, succeeded) = cargo::check(&patched.copy.manifest(), &all)?;
        if succeeded {
            return Ok(());
        }
        let original = |mut error: Error| {
            error.file = patched.copy.original(&error.file);
            error
        };
        let errors: Vec<Error> = messages::errors(&messages).into_iter().map(original).collect();
        if errors.is_empty() {
            let problem = "cargo check failed without an error of the compiler; it is told above";
            return Err(Failure::failed(problem));
        }
        eprintln!(
            "cargo duality: the same without the patch, to know which errors are the patch's"
        );
        let (messages, _) = cargo::check(&self.manifest, arguments)?;
        let known: Vec<Error> = messages::errors(&messages).into_iter().map(original).collect();
        let is_known = |error: &Error| {
            let is_same = |known: &Error| {
                known.file == error.file
                    && known.line == error.line
                    && known.message == error.message
            };
            known.iter().any(is_same)
        };
        let (old, new): (Vec<Error>, Vec<Error>) = errors.into_iter().partition(is_known);
        if new.is_empty() {
            let problem = "this workspace does not compile without the patch; mend that first";
            return Err(Failure::failed(problem));
        }
        report.known_errors = old.len();
        let failed: Vec<&str> = new.iter().map(|error| &*error.package).collect();
        let unchecked = patched.tree.members_above(&failed);
        report.unchecked = unchecked.iter().map(|package| package.label()).collect();
        report.missing = new.iter().map(|error| missing(error, &patched.tree)).collect();
        Ok(())
    }
}

/// The version of bytes that a tree has.
fn bytes_of(tree: &Tree) -> Option<String> {
    tree.first_version_of("bytes").map(|bytes| bytes.version.clone())
}

fn missing(error: &Error, tree: &Tree) -> Missing {
    Missing {
        package: tree.get(&error.package).map_or_else(|| error.package.clone(), Package::label),
        file: error.file.clone(),
        line: error.line,
        column: error.column,
        item: error.item.clone(),
        message: error.message.clone(),
        remedy: error.item.as_deref().and_then(remedy),
    }
}
