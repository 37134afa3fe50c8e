//! Tests the privileges of a server: a privileged program loads no library of its caller, and root
//! becomes the named user.
//!
//! The tests need root. Without root they are skipped, with a line.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use duality_conformance::ServerProcess;
use duality_conformance::programs::{compile, copy_program, finish, folder as file};
use tempfile::TempDir;

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

/// A user without privileges, on every Debian.
const NOBODY: (&str, u32) = ("nobody", 65534);

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        duality_conformance::skip(format_args!("needs root"));
    }
    root
}

/// A folder that every user may write to, with the program, which every user may run.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("root may");
    let program = folder.path().join("duality");
    copy_program(Path::new(DUALITY), &program);
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("root may");
    folder
}

/// Lists the architectures as another user, with a library of that user. Returns whether the
/// library's constructor ran.
fn runs_its_constructor(folder: &Path) -> bool {
    let marker = folder.join("marker");
    let _ = fs::remove_file(&marker);
    let mut command = Command::new(folder.join("duality"));
    command.arg("architectures").env("DUALITY_LIBDISPATCH", folder.join("evil.so"));
    let output = finish(command.uid(NOBODY.1).gid(NOBODY.1).current_dir(folder));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    marker.exists()
}

#[test]
fn a_program_with_capabilities_loads_no_library_of_its_caller() {
    if !is_root() {
        return;
    }
    let folder = open_folder();
    let source = file("programs/evil.c");
    let marker = format!("-DMARKER=\"{}\"", folder.path().join("marker").display());
    compile(&[source], &["-shared", "-fPIC", &marker], &folder.path().join("evil.so"));
    assert!(runs_its_constructor(folder.path()), "without privileges the caller may choose");
    let mut setcap = Command::new("setcap");
    setcap.arg("cap_net_bind_service=ep").arg(folder.path().join("duality"));
    let output = finish(&mut setcap);
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        duality_conformance::skip(format_args!(
            "this file system has no capabilities: {}",
            stderr.trim()
        ));
        return;
    }
    assert!(!runs_its_constructor(folder.path()));
}

#[test]
fn a_server_of_root_becomes_the_user_that_is_named() {
    if !is_root() {
        return;
    }
    // A server with threads, one with child processes, and one with a store.
    for (service, architecture) in [("http", "threads"), ("http", "prefork"), ("phone", "epoll")] {
        let folder = open_folder();
        let mut command = Command::new(folder.path().join("duality"));
        command.args(["serve", service, "-a", architecture, "--listen=127.0.0.1:0"]);
        command.args(["--stats=stats", "--user", NOBODY.0]).current_dir(folder.path());
        let server = ServerProcess::start(&mut command);
        // All kernel threads, and all four ids: real, effective, saved, of the file system.
        let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
        for task in tasks {
            let status = fs::read_to_string(task.expect("listed").path().join("status"));
            let status = status.expect("it can be read");
            let ids = |of: &str| {
                let line = status.lines().find(|line| line.starts_with(of)).expect("a line");
                line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
            };
            let expected = vec![NOBODY.1.to_string(); 4];
            assert_eq!((ids("Uid:"), ids("Gid:")), (expected.clone(), expected), "{service}");
        }
        if service == "phone" {
            assert!(server.ask(b"ADD ann 1\n").starts_with(b"ADDED"));
            let kept = fs::metadata(folder.path().join("phone.sqlite")).expect("kept");
            assert_eq!(kept.uid(), NOBODY.1);
        } else {
            let reply = server.ask(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            assert!(reply.starts_with(b"HTTP/1.1 200"));
        }
        server.signal(rustix::process::Signal::TERM);
        let (status, stderr) = server.wait();
        assert!(status.success(), "{stderr}");
        assert!(!fs::read_to_string(folder.path().join("stats")).expect("written").is_empty());
    }
}

#[test]
fn a_user_that_cannot_be_had_is_refused() {
    if !is_root() {
        return;
    }
    for (name, message) in [("no-such-user", "no such user"), ("root", "is root")] {
        let mut command = Command::new(DUALITY);
        let output =
            finish(command.args(["serve", "http", "--listen=127.0.0.1:0", "--user", name]));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(message) && stderr.lines().count() == 1, "{stderr}");
    }
    let folder = open_folder();
    let mut command = Command::new(folder.path().join("duality"));
    command.args(["serve", "http", "--listen=127.0.0.1:0", "--user", NOBODY.0]);
    let output = finish(command.uid(NOBODY.1).gid(NOBODY.1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && stderr.contains("only root"), "{stderr}");
}
