//! `duality compare --binary old=… --binary new=…` and `--versions`: two builds of one program,
//! with real servers. The planted differences are so large that noise does not decide.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use duality_lab::record::{Records, results};
use serde_json::Value;
use tempfile::TempDir;

const DUALITY: &str = env!("CARGO_BIN_EXE_served");
const PLANTED: &str = env!("CARGO_BIN_EXE_planted");

/// A program that is `planted` with a fault: its backlog says which.
fn program(folder: &Path, name: &str, backlog: usize) -> String {
    let path = folder.join(name);
    let script = format!(
        "#!/bin/sh\nfor word; do\n  shift\n  case $word in --backlog=*) word=--backlog={backlog};; esac\n  \
         set -- \"$@\" \"$word\"\ndone\nexec {PLANTED} \"$@\"\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Runs a program in a folder. The exit code, standard output, and standard error.
fn run(program: &str, folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(program);
    // Packages of one name must not share a folder of programs.
    command.args(arguments).current_dir(folder).env_remove("CARGO_TARGET_DIR");
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    (status.code().unwrap_or(-1), stdout, stderr)
}

const BRIEFLY: [&str; 8] = ["-c", "2", "--repeats", "3", "--blocks", "5", "--out", "out"];

/// Compares two builds of `planted`, of which the new one has this backlog.
fn compared(folder: &Path, backlog: usize, flags: &[&str]) -> (i32, String, String) {
    let old = format!("--binary=old={}", program(folder, "old", 4096));
    let new = format!("--binary=new={}", program(folder, "new", backlog));
    let words = [&["compare", &old, &new][..], &BRIEFLY, flags].concat();
    run(PLANTED, folder, &words)
}

#[test]
fn a_slower_build_is_told_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-a", "epoll,threads", "--fail-on-regression"];
    let (code, stdout, stderr) = compared(folder.path(), 4005, &flags);
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(stdout.starts_with("new is slower than old: "), "{stdout}");
    let last = stderr.lines().last().unwrap();
    assert!(
        last.starts_with("duality: a build is worse by more than 5 %: new is slower"),
        "{stderr}"
    );

    // All builds are alive at once, and driven in turn, there and back.
    let (heading, Records { cells, blocks }) =
        results::read(&[folder.path().join("out/results.jsonl")]).unwrap();
    assert_eq!(heading.design.builds.unwrap().subjects.len(), 4);
    assert!(cells.len() == 4 * 3 && blocks.len() >= 3 * 5, "{} {}", cells.len(), blocks.len());
    for block in &blocks {
        let names: Vec<&str> = block.slices.iter().map(|slice| &*slice.subject).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
        assert!(counts.len() == 4 && counts.values().all(|count| *count == 2), "{names:?}");
        assert!(names.iter().eq(names.iter().rev()), "{names:?}");
    }

    // The results answer again.
    let again = ["report", "out", "--json", "--fail-on-regression=50"];
    let (code, stdout, stderr) = run(DUALITY, folder.path(), &again);
    assert_eq!(code, 1, "{stderr}");
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    let builds = answer["recommendation"]["builds"].as_array().unwrap();
    let changes: Vec<[&str; 3]> = builds
        .iter()
        .map(|one| [&one["subject"], &one["base"], &one["compared"]["change"]])
        .map(|texts| texts.map(|text| text.as_str().unwrap()))
        .collect();
    assert_eq!(changes, [["epoll new", "old", "worse"], ["threads new", "old", "worse"]]);
    let (code, table, _) = run(DUALITY, folder.path(), &["report", "out", "--markdown=builds"]);
    assert_eq!((code, table.matches("| slower |").count()), (0, 2), "{table}");
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("new is slower than old: "));
}

#[test]
fn a_build_is_not_told_apart_from_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = compared(folder.path(), 4096, &["--fail-on-regression=100"]);
    // A busy machine may show too little for a verdict, which is misuse.
    assert!([0, 2].contains(&code), "{code}: {stdout}{stderr}");
    assert!(stdout.contains("\nold ") && stdout.contains("\nnew "), "{stdout}");
}

/// The command has no service of this name. The program knows what to ask it.
#[test]
fn a_program_measures_its_own_service() {
    let folder = tempfile::tempdir().unwrap();
    let binary = |name| format!("--binary={name}={}", program(folder.path(), name, 4096));
    let (code, stdout, stderr) =
        run(DUALITY, folder.path(), &["compare", &binary("old"), &binary("new"), "--check"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("new measures its own service page"), "{stderr}");
    assert!(
        stdout.contains("build         old is ") && stdout.contains("old is epoll\n"),
        "{stdout}"
    );
}

#[test]
fn a_build_that_dies_is_named_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let dies = "new=/bin/sh -c 'echo no such table >&2; exit 3; : {port}'";
    let old = program(folder.path(), "server", 4096);
    let lives = format!("old={old} serve --listen 127.0.0.1:{{port}}");
    let words = ["compare", "--binary", &lives, "--binary", dies, "-c", "2", "--out", "out"];
    let (code, _, stderr) = run(DUALITY, folder.path(), &words);
    assert_eq!(code, 1, "{stderr}");
    let last = stderr.lines().last().unwrap();
    assert!(last.contains("new: ") && last.contains("no such table"), "{stderr}");
}

#[test]
fn builds_that_cannot_be_compared_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let binary = |text: &str| format!("--binary={text}");
    let (one, other) = (binary(&format!("old={DUALITY}")), binary(&format!("new={DUALITY}")));
    let foreign = [binary("old=/bin/sh -c {port}"), binary("new=/bin/sh -c {port}")];
    let unnamed = [binary("./a {port}"), binary("./b {port}")];
    for (words, message) in [
        (&[&*unnamed[0], &unnamed[1]][..], "`./a {port}` has no name"),
        (&[&one], "one build is nothing to compare"),
        (&[&one, &other, "gopher"], "it has no service gopher"),
        (&[&one, &other, "--current=epoll"], "--current: leave it out"),
        (&[&one, &other, "--tick=1ms"], "--tick: leave it out"),
        (&[&one, &other, "-a", "epol"], "did you mean epoll?"),
        (&[&foreign[0], &foreign[1], "http"], "leave the service out"),
        (&[&foreign[0], &foreign[1], "-a", "epoll"], "--architectures: leave it out"),
        (&["--fail-on-regression"], "name two builds"),
        (&["--versions=old=HEAD"], "one build is nothing to compare"),
        (&["--versions=HEAD,new=."], "give a name and a revision"),
        (&["--versions=old=HEAD,new=."], "--versions: "),
    ] {
        let words = [&["compare", "--check"][..], words].concat();
        let (code, _, stderr) = run(DUALITY, folder.path(), &words);
        assert_eq!((code, stderr.lines().count()), (2, 1), "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
}

/// A server that answers each request with a page, on the port that it is told.
const SERVER: &str = r#"use std::io::{Read, Write};
fn main() {
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    for stream in listener.incoming() {
        std::thread::spawn(move || {
            let (mut stream, mut buffer) = (stream.unwrap(), [0; 4096]);
            while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                for _ in 0..ROUNDS { std::hint::spin_loop(); }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            }
        });
    }
}
"#;

/// A package in a repository with one commit.
fn package() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let git = |words: &[&str]| {
        let known = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        let (code, _, stderr) = run("git", folder.path(), &[&known[..], words].concat());
        assert_eq!(code, 0, "{stderr}");
    };
    fs::create_dir(path("src")).unwrap();
    fs::write(path("Cargo.toml"), "[package]\nname = \"tiny\"\nedition = \"2021\"\n").unwrap();
    fs::write(path(".gitignore"), "target\nout*\n").unwrap();
    fs::write(path("src/main.rs"), SERVER.replace("ROUNDS", "0")).unwrap();
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "a server"]);
    folder
}

/// Compares the commit with the working tree.
fn compared_with_tree(folder: &Path, out: &str, flags: &[&str]) -> (i32, String, String) {
    let versions = ["compare", "--versions=old=HEAD,new=.", "--binary={program} {port}"];
    let briefly = ["-c", "2", "--repeats", "3", "--blocks", "5", "--out", out];
    run(DUALITY, folder, &[&versions[..], &briefly, flags].concat())
}

#[test]
fn a_commit_is_compared_with_the_working_tree() {
    let folder = package();
    let main = folder.path().join("src/main.rs");
    fs::write(&main, SERVER.replace("ROUNDS", "20_000")).unwrap();
    let (code, stdout, stderr) =
        compared_with_tree(folder.path(), "out", &["--fail-on-regression"]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(stdout.starts_with("new is slower than old: "), "{stdout}");
    assert!(
        stderr.contains("building old (HEAD, ") && stderr.contains("building new (., "),
        "{stderr}"
    );
    let builds: Vec<PathBuf> =
        ["old", "new"].map(|name| folder.path().join("out/builds").join(name)).into();
    assert!(builds.iter().all(|program| program.is_file()), "{stderr}");
    // Nothing is left of the worktree, and the user's tree is as it was.
    let (_, trees, _) = run("git", folder.path(), &["worktree", "list"]);
    assert_eq!(trees.lines().count(), 1, "{trees}");
    let (_, status, _) = run("git", folder.path(), &["status", "--porcelain"]);
    assert_eq!(status, " M src/main.rs\n");
    assert!(!folder.path().join("target/release/tiny").exists());
}

#[test]
fn what_does_not_compile_is_told_in_one_line_after_the_compiler() {
    let folder = package();
    fs::write(folder.path().join("src/main.rs"), "fn main() { nothing() }").unwrap();
    let (code, _, stderr) = compared_with_tree(folder.path(), "out", &[]);
    assert_eq!(code, 1, "{stderr}");
    let last = stderr.lines().last().unwrap();
    assert!(
        last.starts_with("duality: --versions: new (.): cargo build failed: error"),
        "{stderr}"
    );
    assert!(stderr.contains("nothing()") && last.contains("nothing"), "{stderr}");
    let (_, trees, _) = run("git", folder.path(), &["worktree", "list"]);
    assert_eq!(trees.lines().count(), 1, "{trees}");
    let (code, _, stderr) =
        run(DUALITY, folder.path(), &["compare", "--versions=old=v9,new=.", "--out=out2"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("`v9` is no revision of this repository"), "{stderr}");
}
