//! `cargo xtask release`: makes what a release consists of, from a clean checkout of HEAD.
//!
//! ```text
//!   target/release-build/N/duality   the checkout, with a target directory of its own
//!   target/releases/VERSION/         the archive, the Debian package, the SBOM, and SHA256SUMS
//! ```
//!
//! Every file is a function of the commit and of the compilers. Times are the commit's
//! (`SOURCE_DATE_EPOCH`), paths are mapped to names that no machine has, and the archive is sorted.
//! `--verify` builds a second time, in a folder with a path of another length, and compares.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{At as _, Failure, Result};
use crate::files::{copy, make, read, remove, write};
use crate::outcome::Pass::Passed;
use crate::outcome::{Outcome, cargo_command, execute};
use crate::{Workspace, tools};

/// What this command does, for the help.
pub(crate) const ABOUT: &str =
    "makes a release: archive, package, SBOM, checksums; also: release --verify";

/// What is needed beyond `cargo xtask package`: programs, and the crates that have them.
const PROGRAMS: [&str; 2] = ["cargo-deb", "cargo-cyclonedx"];

/// The file that lists the others with their checksums.
const SUMS: &str = "SHA256SUMS";

/// Makes the release, and with `--verify` makes it twice.
pub(crate) fn run(workspace: &Workspace, verify: bool) -> Outcome {
    println!("made {}", release(workspace, verify)?.display());
    Ok(Passed)
}

fn release(workspace: &Workspace, verify: bool) -> Result<PathBuf> {
    let changed = git(workspace, &["status", "--porcelain", "--untracked-files=no"])?;
    if !changed.is_empty() {
        let remedy = format_args!("commit or stash {changed}");
        return Err(Failure::from("a release is made of a commit").remedy(remedy));
    }
    for program in PROGRAMS {
        if tools::find(program).is_none() {
            let install = ["install", "--locked", program];
            execute(cargo_command(workspace).args(install)).at(program)?;
        }
    }
    // Of this commit are both builds, even if another one is made meanwhile.
    let commit = git(workspace, &["rev-parse", "HEAD"])?;
    let built = workspace.target.join("release-build");
    remove(&built)?;
    let first = Build::make(workspace, &commit, &built.join("1/duality"))?;
    let folder = workspace.target.join("releases").join(&first.version);
    remove(&folder)?;
    make(folder.parent().expect("it is in a folder"))?;
    fs::rename(&first.folder, &folder).at(folder.display())?;
    if verify {
        // The first build's paths end here, so that nothing of the second can read them.
        remove(&built.join("1"))?;
        let second = Build::make(workspace, &commit, &built.join("second-time/duality"))?;
        compare(&folder, &second.folder)?;
        println!("built twice, and the same bit for bit");
    }
    Ok(folder)
}

/// One build of the release.
struct Build {
    version: String,
    /// The folder that has the files of the release, and nothing else.
    folder: PathBuf,
}

impl Build {
    fn make(workspace: &Workspace, commit: &str, checkout: &Path) -> Result<Self> {
        check_out(workspace, commit, checkout)?;
        let time = git(workspace, &["log", "-1", "--format=%ct", commit])?;
        let environment = environment(checkout, &time)?;
        let version = tools::run(cargo_command(workspace).current_dir(checkout).args([
            "pkgid",
            "--package",
            "duality",
        ]))?;
        let version = version.trim().rsplit(['#', '@']).next().unwrap_or_default().to_owned();
        let cargo = || {
            let mut command = cargo_command(workspace);
            command
                .current_dir(checkout)
                .envs(environment.iter().map(|(name, value)| (name, value)));
            command.env_remove("CARGO_TARGET_DIR");
            command
        };
        let package = ["run", "--quiet", "--locked", "--package", "xtask", "--", "package"];
        execute(cargo().args(package)).at("cargo xtask package")?;
        let folder = checkout.join("target/releases");
        make(&folder)?;
        let package = only_file(&checkout.join("target/debian"), "deb")?;
        copy(&package, &folder.join(package.file_name().unwrap_or_default()))?;
        let name = format!("duality-{version}-x86_64-linux");
        archive(&checkout.join("target/package"), &folder, &name, &time)?;
        let mut bill = cargo();
        bill.args(["cyclonedx", "--manifest-path", "crates/duality/Cargo.toml"]);
        bill.args(["--features", "http2,rustls", "--format", "json", "--spec-version", "1.5"]);
        bill.args(["--quiet", "--override-filename", "bill"]);
        execute(&mut bill).at("cargo cyclonedx")?;
        for program in ["duality", "cargo-duality"] {
            let to = folder.join(format!("{program}-{version}.cdx.json"));
            write_bill(checkout, program, &to)?;
        }
        sum(&folder)?;
        Ok(Self { version, folder })
    }
}

/// Writes the files of a commit to a folder.
fn check_out(workspace: &Workspace, commit: &str, checkout: &Path) -> Result {
    make(checkout)?;
    let archive = checkout.with_extension("tar");
    let output = format!("--output={}", archive.display());
    git(workspace, &["archive", &output, commit])?;
    let mut tar = Command::new("tar");
    tools::run(tar.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(checkout))?;
    fs::remove_file(&archive).at(archive.display())
}

/// What makes compilers forget where and when they run.
fn environment(checkout: &Path, time: &str) -> Result<Vec<(&'static str, String)>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cargo"))
    });
    let home = home.ok_or_else(|| {
        Failure::from("cargo's folder is unknown").remedy("set CARGO_HOME or HOME")
    })?;
    let compiler = tools::run(Command::new("rustc").arg("-vV"))?;
    let commit = compiler.lines().find_map(|line| line.strip_prefix("commit-hash: "));
    let root = tools::run(Command::new("rustc").args(["--print", "sysroot"]))?;
    // Where the component rust-src is installed, panics of std name its files. Elsewhere, they name
    // /rustc/COMMIT.
    let library = Path::new(root.trim()).join("lib/rustlib/src/rust");
    let paths = [
        (checkout.to_owned(), "/duality".to_owned()),
        (home, "/cargo".to_owned()),
        (library, format!("/rustc/{}", commit.unwrap_or("unknown"))),
    ];
    let maps = |option: &str, between: &str| {
        let flags = paths.iter().map(|(from, to)| format!("{option}={}={to}", from.display()));
        flags.collect::<Vec<_>>().join(between)
    };
    Ok(vec![
        ("SOURCE_DATE_EPOCH", time.to_owned()),
        ("CARGO_ENCODED_RUSTFLAGS", maps("--remap-path-prefix", "\u{1f}")),
        // SQLite.
        ("CFLAGS", maps("-ffile-prefix-map", " ")),
        ("TZ", "UTC".to_owned()),
        ("LC_ALL", "C.UTF-8".to_owned()),
    ])
}

/// Packs a folder so that order, owners, modes and times do not depend on the machine.
fn archive(folder: &Path, into: &Path, name: &str, time: &str) -> Result {
    let path = into.join(format!("{name}.tar"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--mode=u+rwX,go+rX,go-w"]);
    tar.arg(format!("--mtime=@{time}")).arg(format!("--transform=s,^\\.,{name},"));
    tools::run(tar.arg("--file").arg(&path).arg("--directory").arg(folder).arg("."))?;
    tools::run(Command::new("gzip").args(["--best", "--no-name"]).arg(&path)).map(drop)
}

/// Copies the SBOM of a program. cargo-cyclonedx writes one beside the manifest of each package.
/// The identifiers of packages have the path of the checkout.
fn write_bill(checkout: &Path, program: &str, to: &Path) -> Result {
    let made = checkout.join("crates").join(program).join("bill.json");
    write(to, &read(&made)?.replace(&checkout.display().to_string(), "/duality"))
}

/// Writes the checksums of a folder's files, in the format of sha256sum.
fn sum(folder: &Path) -> Result {
    let mut command = Command::new("sha256sum");
    let sums = tools::run(command.current_dir(folder).arg("--").args(names(folder)?))?;
    write(&folder.join(SUMS), &sums)
}

/// Compares two releases, file by file.
///
/// # Errors
///
/// Which files differ, and where they are.
fn compare(first: &Path, second: &Path) -> Result {
    let (names, others) = (names(first)?, names(second)?);
    if names != others {
        return Err(format!("the builds have other files: {names:?} and {others:?}").into());
    }
    let bytes = |path: PathBuf| fs::read(&path).at(path.display());
    let mut differ = Vec::new();
    for name in names.into_iter().filter(|name| name != SUMS) {
        if bytes(first.join(&name))? != bytes(second.join(&name))? {
            differ.push(name);
        }
    }
    match differ[..] {
        [] => Ok(()),
        _ => Err(format!(
            "not reproducible: {} differ in {} and {}; diffoscope shows where",
            differ.join(", "),
            first.display(),
            second.display()
        )
        .into()),
    }
}

/// The names of a folder's files, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).at(folder.display())?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.at(folder.display())?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The only file of a folder that ends so.
fn only_file(folder: &Path, extension: &str) -> Result<PathBuf> {
    let mut found = names(folder)?;
    found.retain(|name| Path::new(name).extension().is_some_and(|own| own == extension));
    match &found[..] {
        [name] => Ok(folder.join(name)),
        _ => Err(format!("{} has {} files .{extension}", folder.display(), found.len()).into()),
    }
}

fn git(workspace: &Workspace, arguments: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    let said = tools::run(git.current_dir(&workspace.root).args(arguments))?;
    Ok(said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files, that ends with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            for (file, text) in files {
                fs::write(path.join(file), text).unwrap();
            }
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_difference_of_one_byte_is_found() {
        let one = Folder::new("one", &[("a", "1"), ("b", "2"), (SUMS, "x")]);
        let same = Folder::new("same", &[("a", "1"), ("b", "2"), (SUMS, "y")]);
        let other = Folder::new("other", &[("a", "1"), ("b", "3"), (SUMS, "x")]);
        let fewer = Folder::new("fewer", &[("a", "1")]);
        assert_eq!(compare(&one.0, &same.0), Ok(()));
        let problem = compare(&one.0, &other.0).unwrap_err().to_string();
        assert!(problem.starts_with("not reproducible: b differ in "), "{problem}");
        assert!(compare(&one.0, &fewer.0).unwrap_err().to_string().contains("other files"));
    }

    #[test]
    fn an_archive_does_not_depend_on_owners_and_times() {
        let (one, two) = (Folder::new("p1", &[("f", "x")]), Folder::new("p2", &[("f", "x")]));
        let (first, second) = (Folder::new("t1", &[]), Folder::new("t2", &[]));
        fs::File::open(two.0.join("f")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        for (folder, into) in [(&one, &first), (&two, &second)] {
            archive(&folder.0, &into.0, "duality", "1700000000").unwrap();
        }
        assert_eq!(names(&first.0), Ok(vec!["duality.tar.gz".to_owned()]));
        assert_eq!(compare(&first.0, &second.0), Ok(()));
    }

    #[test]
    fn paths_and_times_of_the_machine_are_mapped() {
        let made = environment(Path::new("/somewhere/else"), "1700000000").unwrap();
        let value = |name: &str| &made.iter().find(|(own, _)| *own == name).unwrap().1;
        assert_eq!(value("SOURCE_DATE_EPOCH"), "1700000000");
        let flags = value("CARGO_ENCODED_RUSTFLAGS");
        assert_eq!(
            flags.split('\u{1f}').next(),
            Some("--remap-path-prefix=/somewhere/else=/duality")
        );
        assert!(value("CFLAGS").starts_with("-ffile-prefix-map=/somewhere/else=/duality "));
    }
}
