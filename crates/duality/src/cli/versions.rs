//! `duality compare --versions old=REV,new=REV`: builds revisions of the package in this
//! directory.
//!
//! ```text
//!   REV ─▶ a commit; `.` is the working tree, as `git add --all` would take it
//!       ─▶ checked out into one folder, the same for each, so that no path differs
//!       ─▶ cargo build --release … ─▶ OUT/builds/NAME
//! ```

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, Read, Seek, Write, stderr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use duality_lab::Mistake;
use duality_lab::record::Build;
use duality_runtime::log;
use tempfile::TempDir;

use super::{Blame, Failure, Party};

/// The last lines of a failed build that are shown.
const LAST_LINES: usize = 30;

/// A revision to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// The name of the build.
    pub(super) name: String,
    /// The revision, as git knows it, or `.` for the working tree.
    revision: String,
}

/// A program that was built.
pub(super) struct Made {
    pub(super) program: String,
    pub(super) commit: String,
}

/// Reads `old=main`.
pub(super) fn version(text: &str) -> Result<Version, Mistake> {
    match text.split_once('=') {
        Some((name, revision)) if is_name(name) && !revision.is_empty() => {
            Ok(Version { name: name.to_owned(), revision: revision.to_owned() })
        }
        _ => Err("give a name and a revision, as in old=main,new=. (the working tree)".into()),
    }
}

/// Whether a text is the name of a build.
pub(super) fn is_name(text: &str) -> bool {
    /// Names are headings of tables, beside an architecture.
    const LONGEST: usize = 20;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=LONGEST).contains(&text.len())
        && text.bytes().all(is_plain)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Builds each version with the same flags, one after the other, into the folder `out`. With
/// `is_check`, finds the commits and builds nothing.
pub(super) fn build(
    versions: &[Version],
    flags: &[String],
    out: &Path,
    is_check: bool,
) -> Result<Vec<Made>, Failure> {
    let repository = Repository::here()?;
    let commits = versions.iter().map(|version| repository.commit(version));
    let commits = commits.collect::<Result<Vec<String>, Failure>>()?;
    let folder = out.join("builds");
    let programs = versions.iter().map(|version| folder.join(&version.name));
    let made: Vec<Made> = programs
        .zip(commits)
        .map(|(program, commit)| Made { program: shown(&program), commit })
        .collect();
    if is_check {
        return Ok(made);
    }
    fs::create_dir_all(&folder).blame_at(Party::Machine, folder.display())?;
    let tree = repository.check_out(&made[0].commit)?;
    for (version, Made { program, commit }) in versions.iter().zip(&made) {
        let Version { name, revision } = version;
        log::tell(format_args!(
            "building {name} ({revision}, {}): cargo build --release {}",
            &commit[..12.min(commit.len())],
            flags.join(" ")
        ));
        tree.go_to(commit)?;
        let built = tree
            .build(flags, &repository.target)
            .map_err(|failure| failure.at(format_args!("--versions: {name} ({revision})")))?;
        fs::copy(&built, program).blame_at(Party::Machine, program)?;
    }
    let content = |made: &Made| fs::read(&made.program).unwrap_or_default();
    if made.windows(2).all(|pair| content(&pair[0]) == content(&pair[1])) {
        log::tell(format_args!("all builds are the same program, byte for byte"));
    }
    Ok(made)
}

/// A path that is a program for `exec`, also in this directory.
fn shown(path: &Path) -> String {
    let is_bare = path.components().count() == 1;
    if is_bare { format!("./{}", path.display()) } else { path.display().to_string() }
}

/// The git repository around this directory.
struct Repository {
    /// This directory, relative to the top of the repository.
    prefix: PathBuf,
    /// The folder of what cargo builds for `--versions`.
    target: PathBuf,
}

impl Repository {
    fn here() -> Result<Self, Failure> {
        let prefix = git(["rev-parse", "--show-prefix"], None).map_err(|problem| {
            Failure::misuse(format!(
                "--versions: {problem}: run it in a package of a git repository, or build both \
                 yourself and name them by --binary"
            ))
        })?;
        let described = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version=1"])
            .output()
            .blame_at(Party::Machine, "cargo")?;
        let told: serde_json::Value = serde_json::from_slice(&described.stdout).unwrap_or_default();
        let target = told["target_directory"].as_str().ok_or_else(|| {
            let problem = first_error(&String::from_utf8_lossy(&described.stderr));
            Failure::misuse(format!("--versions: {problem}"))
        })?;
        // A folder of its own: the user's programs stay as they are.
        Ok(Self { prefix: prefix.into(), target: Path::new(target).join("duality-versions") })
    }

    /// The commit of a version. The working tree becomes a commit that no branch has.
    fn commit(&self, Version { name, revision }: &Version) -> Result<String, Failure> {
        if revision == "." {
            return self.snapshot().map_err(|failure| failure.at("--versions"));
        }
        let commit = format!("{revision}^{{commit}}");
        git(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit], None).map_err(|_| {
            Failure::misuse(format!(
                "--versions: {name}: `{revision}` is no revision of this repository: choose from \
                 `git branch`, `git tag` and `git log`, or . for the working tree"
            ))
        })
    }

    fn snapshot(&self) -> Result<String, Failure> {
        let folder = tempfile::tempdir().blame_at(Party::Machine, "a folder for --versions")?;
        let index = folder.path().join("index");
        let own = git(["rev-parse", "--path-format=absolute", "--git-path", "index"], None)?;
        // git then looks only at files that have changed.
        if Path::new(&own).exists() {
            fs::copy(&own, &index).blame_at(Party::Machine, own)?;
        }
        git(["add", "--all", ":/"], Some(&index))?;
        let tree = git(["write-tree"], Some(&index))?;
        let author = [("NAME", "duality"), ("EMAIL", "duality@localhost")];
        let mut command = git_command();
        for (what, value) in author {
            command.env(format!("GIT_AUTHOR_{what}"), value);
            command.env(format!("GIT_COMMITTER_{what}"), value);
        }
        output(command.args(["commit-tree", &tree, "-p", "HEAD", "-m", "the working tree"]))
    }

    /// A folder with the files of a commit, beside the repository. It is removed at the end.
    fn check_out(&self, commit: &str) -> Result<Tree, Failure> {
        let folder = tempfile::Builder::new().prefix("duality-versions-").tempdir();
        let folder = folder.blame_at(Party::Machine, "a folder for --versions")?;
        let path = folder.path().join("tree");
        let words = [OsStr::new("worktree"), "add".as_ref(), "--detach".as_ref()];
        git(words.into_iter().chain([path.as_ref(), commit.as_ref()]), None)
            .map_err(|failure| failure.at("--versions"))?;
        Ok(Tree { package: path.join(&self.prefix), path, _folder: folder })
    }
}

/// A worktree, which is removed when this value is dropped.
struct Tree {
    path: PathBuf,
    /// The folder of the package in it.
    package: PathBuf,
    _folder: TempDir,
}

impl Tree {
    fn go_to(&self, commit: &str) -> Result<(), Failure> {
        let mut command = git_command();
        command.arg("-C").arg(&self.path).args(["checkout", "--quiet", "--detach", commit]);
        output(&mut command).map(drop).map_err(|failure| failure.at("--versions"))
    }

    /// Builds the package. Returns its program.
    fn build(&self, flags: &[String], target: &Path) -> Result<PathBuf, Failure> {
        const PLACE: &str = "cargo build";
        let mut messages = tempfile::tempfile().blame_at(Party::Machine, PLACE)?;
        let mut cargo = Command::new("cargo")
            .args(["build", "--release", "--message-format=json-render-diagnostics"])
            .args(flags)
            .arg("--target-dir")
            .arg(target)
            .current_dir(&self.package)
            .stdin(Stdio::null())
            .stdout(messages.try_clone().blame_at(Party::Machine, PLACE)?)
            .stderr(Stdio::piped())
            .spawn()
            .blame_at(Party::Machine, PLACE)?;
        let said = follow(BufReader::new(cargo.stderr.take().expect("it is piped")));
        if !cargo.wait().blame_at(Party::Machine, PLACE)?.success() {
            let from = said.len().saturating_sub(LAST_LINES);
            said[from..].iter().for_each(|line| log::tell(format_args!("{line}")));
            let error = first_error(&said.join("\n"));
            return Err(Failure::new(Party::Subject, format!("cargo build failed: {error}")));
        }
        let mut text = String::new();
        messages
            .rewind()
            .and_then(|()| messages.read_to_string(&mut text))
            .blame_at(Party::Machine, PLACE)?;
        only_program(&text)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let words = [OsStr::new("worktree"), "remove".as_ref(), "--force".as_ref()];
        if let Err(problem) = git(words.into_iter().chain([self.path.as_ref()]), None) {
            log::tell(format_args!("{}: {problem}", self.path.display()));
        }
    }
}

/// Reads what cargo says. A terminal shows the last line meanwhile.
fn follow(stderr_of_cargo: impl BufRead) -> Vec<String> {
    let is_shown = stderr().is_terminal();
    let mut said = Vec::new();
    for line in stderr_of_cargo.lines().map_while(Result::ok) {
        if is_shown {
            // Progress may be lost.
            let _ = write!(stderr(), "\r\x1b[K{}", line.chars().take(79).collect::<String>());
        }
        said.push(line);
    }
    if is_shown {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    said
}

/// The first error in what git, cargo or a compiler says, or its last line.
fn first_error(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find(|line| line.starts_with("error") || line.starts_with("fatal"));
    let line = error.or_else(|| lines().next_back()).unwrap_or("it said nothing");
    line.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned()
}

/// The program in cargo's messages.
fn only_program(messages: &str) -> Result<PathBuf, Failure> {
    let program = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    let programs: Vec<PathBuf> = messages.lines().filter_map(program).collect();
    match programs.as_slice() {
        [only] => Ok(only.clone()),
        [] => {
            Err(Failure::misuse("no program was built: name one, as in --cargo \"--example NAME\""))
        }
        several => {
            let names = several.iter().filter_map(|path| path.file_name());
            let names: Vec<_> = names.map(OsStr::to_string_lossy).collect();
            let all = names.join(", ");
            Err(Failure::misuse(format!(
                "several programs were built ({all}): name one by --cargo \"--bin NAME\""
            )))
        }
    }
}

/// git without the user's hooks, which may change what is built.
fn git_command() -> Command {
    let mut command = Command::new("git");
    command.args(["-c", "core.hooksPath=/dev/null"]);
    command
}

/// Runs git, with another index if there is one. Returns its line.
fn git<'a>(
    words: impl IntoIterator<Item = impl AsRef<OsStr> + 'a>,
    index: Option<&Path>,
) -> Result<String, Failure> {
    let mut command = git_command();
    command.args(words);
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
    }
    output(&mut command)
}

/// What a command prints, or the error that it prints.
fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().blame_at(Party::Machine, "git")?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => {
            let error = first_error(&String::from_utf8_lossy(&output.stderr));
            Err(Failure::new(Party::Machine, error))
        }
    }
}

/// Becomes the `compare` of one of the builds, with the command line of this program. Returns the
/// reason if this fails.
pub(super) fn go_on(builds: &[Build], program: &[String], out: Option<&Path>) -> Failure {
    let given: Vec<OsString> = env::args_os().skip(1).collect();
    let words = match out {
        None => given,
        Some(out) => in_place_of_versions(given, builds, out),
    };
    let error = Command::new(&program[0]).args(&program[1..]).args(words).exec();
    Failure::new(Party::Machine, error).at(&program[0])
}

/// The command line with the programs in place of `--versions`, which would build them again.
fn in_place_of_versions(given: Vec<OsString>, builds: &[Build], out: &Path) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut given = given.into_iter();
    while let Some(word) = given.next() {
        match word.to_string_lossy().split_once('=') {
            Some(("--versions" | "--cargo", _)) => {}
            None if word == "--versions" || word == "--cargo" => drop(given.next()),
            _ => words.push(word),
        }
    }
    let named = |build: &Build| format!("--binary={}={}", build.name, build.command.join(" "));
    words.extend(builds.iter().map(|build| named(build).into()));
    words.push(format!("--out={}", out.display()).into());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_a_name_and_a_revision() {
        let read = |text| version(text).map(|version| (version.name, version.revision));
        assert_eq!(read("old=v1.0~2"), Ok(("old".to_owned(), "v1.0~2".to_owned())));
        assert_eq!(read("new=."), Ok(("new".to_owned(), ".".to_owned())));
        for wrong in ["main", "=main", "old=", "a b=main"] {
            assert!(read(wrong).unwrap_err().to_string().contains("old=main,new=."), "{wrong}");
        }
    }

    #[test]
    fn one_program_is_found_in_the_messages_of_cargo() {
        let message = |name: &str| format!("{{\"executable\":\"/t/release/{name}\"}}\n");
        let library = "{\"reason\":\"compiler-artifact\",\"executable\":null}\nnot json\n";
        assert_eq!(only_program(&(library.to_owned() + &message("a"))), Ok("/t/release/a".into()));
        assert!(only_program(library).unwrap_err().to_string().contains("--example NAME"));
        let several = only_program(&(message("a") + &message("b"))).unwrap_err().to_string();
        assert!(several.contains("(a, b)") && several.contains("--bin NAME"), "{several}");
    }

    #[test]
    fn the_first_error_is_told() {
        assert_eq!(first_error("note: x\nerror[E1]: no y\nerror: z\n"), "error[E1]: no y");
        assert_eq!(first_error("fatal: not a git repository\n"), "not a git repository");
        assert_eq!(first_error("\nwhat\n\n"), "what");
    }

    #[test]
    fn programs_stand_in_place_of_versions() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<OsString>>();
        let build = Build {
            name: "old".to_owned(),
            command: vec!["x/builds/old".to_owned()],
            commit: None,
        };
        let given = words("compare --versions old=main -c 10 --cargo=--locked");
        let told = in_place_of_versions(given, &[build], Path::new("x"));
        assert_eq!(told, words("compare -c 10 --binary=old=x/builds/old --out=x"));
    }
}
