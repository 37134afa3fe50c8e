//! The commands of the guide's first pages are understood as they are written: comparisons with
//! `--check`, which measures nothing, and reports on kept runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pages, and how many commands each has at least.
const PAGES: [(&str, usize); 3] = [("noise.md", 3), ("ci.md", 3), ("your-server.md", 4)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands in the fences of a page; a line that ends with a backslash goes on.
fn commands(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap().replace("\\\n", " ");
    let fences = text.split("```").skip(1).step_by(2);
    let lines = fences.filter_map(|fence| fence.strip_prefix("sh\n")).flat_map(str::lines);
    lines.filter(|line| line.starts_with("duality ")).map(str::to_owned).collect()
}

/// A folder with the files that the pages assume: the command, a server, two runs.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let link = |from: &Path, to: &str| {
        std::os::unix::fs::symlink(from, folder.path().join(to)).unwrap();
    };
    link(Path::new(env!("CARGO_BIN_EXE_duality")), "duality");
    link(&root().join("examples"), "examples");
    link(Path::new("/bin/true"), "server");
    link(Path::new("/bin/true"), "memcached");
    for (name, run) in [
        ("one", "conversion"),
        ("two", "conversion-again"),
        ("before", "conversion"),
        ("after", "conversion-again"),
    ] {
        let run = root().join("runs/2026-11-25-vm").join(run).join("echo-short/results.jsonl");
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::copy(run, folder.path().join(name).join("results.jsonl")).unwrap();
    }
    folder
}

#[test]
fn the_commands_of_the_guide_are_understood() {
    let folder = folder();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    for (page, least) in PAGES {
        let mut commands = commands(page);
        // It needs a server at a fixed port; docs/requests.md has such loads, and a test of them.
        commands.retain(|command| !command.starts_with("duality load "));
        assert!(commands.len() + 1 >= least, "{page}: {commands:#?}");
        for command in commands {
            let is_comparison = command.starts_with("duality compare ");
            // `--check` writes nothing, and takes no folder to write to.
            let asked = command.split(" --out ").next().unwrap_or_default();
            let line = if is_comparison { format!("{asked} --check") } else { command.clone() };
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).current_dir(folder.path()).env("PATH", &path);
            let output = shell.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!stderr.contains("argument"), "{page}: {line}: {stderr}");
            // The exit code says whether a report finds a regression.
            let is_fine = output.status.success() || line.contains("--fail-on-regression");
            assert!(is_fine, "{page}: {line}: {stderr}");
        }
    }
}
