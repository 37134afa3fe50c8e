//! `cargo duality check-tokio` on a small workspace. `cargo xtask tokio-patch` builds the command,
//! and names it in the environment.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The longest that a check may take, in seconds.
const LIMIT: &str = "900";

const MANIFEST: &str = "\
[package]
name = \"shop\"
version = \"0.1.0\"
edition = \"2024\"
[workspace]
[dependencies]
tokio = { version = \"1\", features = [\"macros\", \"process\", \"rt-multi-thread\", \"time\"] }
";

const WORKS: &str = "\
fn main() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.event_interval(61).enable_all();
    let soon = async { tokio::time::sleep(std::time::Duration::from_millis(1)).await };
    builder.build().unwrap().block_on(soon);
}
";

const LACKS: &str = "\
fn main() {
    let mut command = tokio::process::Command::new(\"true\");
    unsafe { command.pre_exec(|| Ok(())) };
}
";

/// The checkout that these tests are in.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check(command: &OsString, workspace: &Path, flags: &[&str]) -> Output {
    // All that it needs has been fetched.
    let mut check = Command::new("timeout");
    check.arg(LIMIT).arg(command).args(["duality", "check-tokio", "--patch"]).arg(root());
    check.args(flags).env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_TARGET_DIR");
    check.current_dir(workspace).output().unwrap()
}

fn write(workspace: &Path, file: &str, text: &str) {
    fs::write(workspace.join(file), text).unwrap();
}

#[test]
fn a_workspace_is_checked_before_it_is_patched() {
    let Some(command) = std::env::var_os("CARGO_DUALITY") else {
        eprintln!("skipped: `cargo xtask tokio-patch` builds `cargo duality`");
        return;
    };
    // The next run finds what this one has compiled.
    let workspace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shop");
    fs::create_dir_all(workspace.join("src")).unwrap();
    write(&workspace, "Cargo.toml", MANIFEST);
    write(&workspace, "src/main.rs", LACKS);
    let _ = fs::remove_file(workspace.join("Cargo.lock"));
    let output = check(&command, &workspace, &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && errors.contains("no Cargo.lock"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");

    // Of the versions of the whole checkout, cargo keeps those that are needed.
    fs::copy(root().join("Cargo.lock"), workspace.join("Cargo.lock")).unwrap();
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--offline", "--format-version=1"]).current_dir(&workspace);
    let output = metadata.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lock = fs::read(workspace.join("Cargo.lock")).unwrap();

    let output = check(&command, &workspace, &[]);
    let found = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for line in [
        "src/main.rs:3:22: `tokio::process::Command::pre_exec` is missing [shop 0.1.0]",
        "    instead: as_std_mut, and pre_exec of the standard library",
    ] {
        assert!(found.lines().any(|found| found == line), "{found}");
    }

    write(&workspace, "src/main.rs", WORKS);
    let output = check(&command, &workspace, &["--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success() && found["works"] == true, "{output:?}");
    assert_eq!(found["notes"][0]["line"], 3, "event_interval has no effect: {found}");
    let version = found["bytes"].as_str().unwrap();
    assert!(found["lines"].as_str().unwrap().contains(version), "{found}");
    assert!(fs::read(workspace.join("Cargo.lock")).unwrap() == lock, "the lock stays as it was");
}
