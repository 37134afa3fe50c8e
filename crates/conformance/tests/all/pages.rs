//! Runs the commands of docs/trace.md, docs/replay.md and docs/trial.md, as a reader types them.
//! `load.rs` runs the commands of docs/requests.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use duality_conformance::{ServerProcess, complaints_of_load};

/// A folder with the files that the pages assume: the command, a log, a site.
struct Reader {
    folder: tempfile::TempDir,
}

impl Reader {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_served"), folder.path().join("duality"))
            .unwrap();
        fs::create_dir(folder.path().join("site")).unwrap();
        fs::write(folder.path().join("site/index.html"), "hello").unwrap();
        let mut log = String::new();
        for second in 0..50 {
            writeln!(
                log,
                "10.0.0.{} - - [20/Jul/1995:04:00:{second:02} +0000] \"GET /a.html HTTP/1.1\" 200 {}",
                second % 9,
                500 + second
            )
            .unwrap();
        }
        fs::write(folder.path().join("access.log"), log).unwrap();
        let own = "10.0.0.1 [20/Jul/1995:04:00:01 +0000] \"GET / HTTP/1.1\" 200 500 0.010\n";
        fs::write(folder.path().join("my.log"), own.repeat(20)).unwrap();
        Self { folder }
    }

    fn shell(&self, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.folder.path());
        command.env("PATH", format!("{}:{path}", self.folder.path().display()));
        command
    }

    /// Types a command, which must succeed.
    fn types(&self, line: &str) {
        let output = self.shell(line).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {stderr}");
    }
}

/// The commands in the fences of a page.
fn commands(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let mut is_inside = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = !is_inside;
        } else if is_inside && line.starts_with("duality ") {
            let command = line.split(" #").next().unwrap_or_default().trim();
            commands.push(command.to_owned());
        }
    }
    commands
}

/// The address of the servers of the pages.
fn written(host: &str) -> String {
    [host, "8080"].join(":")
}

#[test]
fn the_commands_of_the_page_on_traces_work() {
    let reader = Reader::new();
    let commands = commands("trace.md");
    let (records, others): (Vec<_>, Vec<_>) =
        commands.iter().partition(|command| command.starts_with("duality record "));
    assert!(others.len() >= 4 && records.len() == 2, "{commands:#?}");
    for command in others {
        reader.types(command);
    }
    assert!(reader.folder.path().join("my.html").is_file());
    // Without a client there is nothing to record. crates/duality/tests/all/trace.rs has clients.
    for record in records {
        let words = record.replace(&written("0.0.0.0"), "127.0.0.1:0").replace("eth0", "lo");
        let output = reader.shell(&format!("{words} --duration 50ms")).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_refused = words.contains(" --interface ") && stderr.contains("CAP_NET_RAW");
        assert!(stderr.contains("no request came") || is_refused, "{stderr}");
    }
}

#[test]
fn the_commands_of_the_page_on_replays_work() {
    let reader = Reader::new();
    // The recording of the page is longer than this test may last.
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/traces/nasa-1995.trace");
    let mut servers = Vec::new();
    let mut address = None;
    let mut count = 0;
    for command in commands("replay.md") {
        count += 1;
        if command.starts_with("duality trace from ") {
            reader.types(&command);
            fs::copy(&shipped, reader.folder.path().join("my.trace")).unwrap();
        } else if command == "duality compare plans/replay.toml" {
            let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let plan = format!("duality compare {}/plans/replay.toml --check", plans.display());
            reader.types(&plan);
        } else if command.starts_with("duality compare ") {
            // The exit code says whether there is a verdict. A busy machine allows no verdict.
            let short = "-a epoll --no-control --users 200 --repeats 1 --blocks 0 --window 300ms";
            let output = reader.shell(&format!("{command} {short}")).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("Report: "), "{command}: {said}");
        } else if let Some(serve) = command.strip_suffix(" &") {
            let words = serve.replace(&written("127.0.0.1"), "127.0.0.1:0");
            let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
            command.args(words.split(' ').skip(1)).current_dir(reader.folder.path());
            let server = ServerProcess::start(&mut command);
            address = Some(server.address().to_string());
            servers.push(server);
        } else if let Some(address) = &address {
            let load = command.replace(&written("127.0.0.1"), address).replace("-d 5s", "-d 500ms");
            let output = reader.shell(&load).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(complaints_of_load(&said).is_empty(), "{load}: {said}");
        } else {
            reader.types(&command);
        }
    }
    assert!(count >= 6 && servers.len() == 1);
}

#[test]
fn the_commands_of_the_page_on_trials_work() {
    let reader = Reader::new();
    let commands = commands("trial.md");
    assert!(commands.len() >= 4, "{commands:#?}");
    for command in commands {
        // Without clients, the trial decides nothing. The last of a repeated flag counts.
        let line = format!("exec {command} --listen 127.0.0.1:0 --budget 300ms --then exit");
        let output = reader.shell(&line).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {stderr}");
    }
}
