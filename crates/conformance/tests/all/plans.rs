//! `duality compare PLAN.toml`: with real servers, real loads and small windows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use duality_conformance::{eventually, figures};
use duality_lab::measure::peers::READY_MADE;
use duality_lab::record::results;
use duality_lab::record::{Cell, Heading, Obstacle, Outcome, Records};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

/// Two experiments; the second needs a store.
const PLAN: &str = "title = 'Two questions'
source = 'a test'
[defaults]
architectures = ['fork', 'epoll']
concurrency = [2]
repeats = 2
warm-up = '0s'
window = '300ms'
[[experiment]]
name = 'talk'
service = 'echo'
[[experiment]]
name = 'book'
service = 'guestbook'
close = true
";

/// A directory with a plan in it, and the results beside it.
struct Lab {
    directory: TempDir,
}

impl Lab {
    fn new(plan: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("plan.toml"), plan).unwrap();
        Self { directory }
    }

    fn compare(&self, flags: &[&str]) -> Output {
        self.command().args(flags).output().unwrap()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        command.current_dir(self.directory.path());
        command.args(["compare", "plan.toml", "--out", "out"]);
        command
    }

    /// Runs any command in the directory.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        command.current_dir(self.directory.path()).args(arguments).output().unwrap()
    }

    /// Calls [`compare`](Self::compare), which must succeed. Returns standard output.
    fn compared(&self, flags: &[&str]) -> String {
        let output = self.compare(flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn results(&self, experiment: &str) -> (Heading, Records) {
        let path = self.directory.path().join("out").join(experiment).join("results.jsonl");
        results::read(&[path]).unwrap()
    }

    fn read(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.directory.path().join(path)).unwrap()
    }
}

#[test]
fn every_experiment_is_measured_and_has_its_place_in_the_index() {
    let lab = Lab::new(PLAN);
    let said = lab.compared(&[]);
    let index = lab.read("out/index.html");
    assert!(index.contains("Two questions") && index.contains("From a test"));
    for (name, service, keep_alive) in [("talk", "echo", true), ("book", "guestbook", false)] {
        assert!(said.contains(&format!("{name}: {service}")), "{said}");
        assert!(index.contains(&format!("href=\"{name}&#x2f;report.html\"")));
        assert!(lab.read(format!("out/{name}/report.html")).contains("Two questions"));
        let (experiment, Records { cells, .. }) = lab.results(name);
        assert_eq!(experiment.plan.unwrap().experiment, name);
        // There are two architectures and the control, twice.
        assert_eq!(experiment.design.control.as_deref(), Some("epoll (again)"));
        assert_eq!((&*experiment.design.service, cells.len()), (service, 6));
        assert_eq!(experiment.design.keep_alive, keep_alive);
        cells.iter().for_each(served_well);
    }
    assert_eq!(lab.results("book").0.design.store.as_deref(), Some("sqlite"));
}

#[test]
fn the_pages_are_written_anew_from_the_results_alone() {
    let lab = Lab::new(PLAN);
    lab.compared(&["--repeats=1"]);
    let pages = ["out/index.html", "out/talk/report.html", "out/book/report.html"];
    let before = pages.map(|page| lab.read(page));
    for page in pages {
        fs::remove_file(lab.directory.path().join(page)).unwrap();
    }
    let output = lab.run(&["report", "out"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let after = pages.map(|page| lab.read(page));
    assert_eq!(before[0], after[0]);
    // A number that is read from JSON may differ from the written number in the last of seventeen
    // digits.
    let words = |page: &String| page.replace(|letter: char| letter.is_ascii_digit(), "");
    for (before, after) in before.iter().map(words).zip(after.iter().map(words)) {
        let differing = before.lines().zip(after.lines()).find(|(before, after)| before != after);
        assert!(before == after, "a page differs: {differing:?}");
    }
    let output = lab.run(&["report", "out", "--markdown", "rate,switches"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        stdout.starts_with("### talk\n\nRequests/s") && stdout.contains("| fork | "),
        "{stdout}"
    );
    let output = lab.run(&["report", "."]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no results.jsonl"));
}

/// The queue overflows for certain. On a busy machine the queue need not be the limit.
#[test]
fn a_listen_queue_that_overflows_is_known_and_named() {
    let lab = Lab::new(
        "title = 'a'\n[[experiment]]\nname = 'b'\nservice = 'http'\nclose = true\n\
         architectures = ['iterative']\ncontrol = false\nconcurrency = [400]\nrepeats = 1\nwarm-up = '100ms'\n\
         window = '800ms'\nserver-arguments = ['--backlog=10']",
    );
    let said = lab.compared(&["--tables"]);
    let (_, Records { cells, .. }) = lab.results("b");
    let Some(measured) = figures(&cells[0]) else { return };
    assert!(measured.listen_overflows > 0);
    let queue = measured.listen_queue.expect("Linux tells the length of queues");
    assert_eq!(queue.length, 10);
    let named = "The listen queue is the limit: the measured load";
    assert_eq!(measured.warnings.iter().any(|said| said.text.starts_with(named)), queue.was_limit);
    assert_eq!(said.contains(named), queue.was_limit);
    assert_eq!(said.contains("was the limit of iterative (at 400)"), queue.was_limit);
}

#[test]
fn resuming_measures_only_what_is_missing() {
    let lab = Lab::new(PLAN);
    let once = ["--repeats=1", "--no-control"];
    lab.compared(&once);
    assert_eq!(lab.compare(&once).status.code(), Some(2));
    let path = lab.directory.path().join("out/book/results.jsonl");
    let whole = lab.read(&path);
    let lines: Vec<&str> = whole.lines().collect();
    // The file is as after a crash: the last cell is torn.
    fs::write(&path, format!("{}\n{}\n{{\"kind\":\"ce", lines[0], lines[1])).unwrap();
    let talk = lab.read("out/talk/results.jsonl");
    lab.compared(&["--repeats=1", "--no-control", "--resume"]);
    assert_eq!(lab.read("out/talk/results.jsonl"), talk);
    let resumed = lab.read(&path);
    let resumed: Vec<&str> = resumed.lines().collect();
    assert_eq!(resumed[..2], lines[..2]);
    assert_ne!(resumed[2], lines[2]);
    measured_once(&lab.results("book"), &resumed);
    // The command does not resume another question, and starts nothing.
    let output = lab.compare(&["--repeats=2", "--resume"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another experiment"));
}

/// Whether each result was measured once, and every block is there.
fn measured_once((experiment, records): &(Heading, Records), lines: &[&str]) {
    let Records { cells, blocks } = records;
    let sessions = lines.iter().filter(|line| line.starts_with(r#"{"kind":"session""#)).count();
    assert_eq!(lines.len(), 1 + cells.len() + blocks.len() + sessions);
    assert_eq!(cells.len(), experiment.design.cells());
    let all: BTreeSet<(usize, usize, usize)> =
        blocks.iter().map(|block| (block.concurrency, block.session, block.number)).collect();
    assert_eq!(all.len(), blocks.len());
    let planned = experiment.design.concurrency.len() * experiment.design.planned_blocks();
    assert!(blocks.len() >= planned && planned > 0, "{} of {planned}", blocks.len());
}

/// The number of complete lines of a file.
fn complete_lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().matches('\n').count()
}

#[test]
fn a_lab_that_is_killed_thrice_measures_every_cell_once() {
    let lab = Lab::new(
        "title = 'a'\n[[experiment]]\nname = 'b'\nservice = 'echo'\narchitectures = ['threads', 'epoll']\n\
         concurrency = [1, 3]\nrepeats = 2\nwindow = '300ms'\nwarm-up = '0s'",
    );
    let path = lab.directory.path().join("out/b/results.jsonl");
    let mut kept = String::new();
    for kill in 1..=3 {
        let mut compare = lab.command().arg("--resume").spawn().unwrap();
        // The file has the experiment's own line, and two more of twelve cells each time.
        eventually("two more cells end", || (complete_lines(&path) > 2 * kill).then_some(()));
        compare.kill().unwrap();
        compare.wait().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&kept), "what was measured before is still there");
        kept = text[..=text.rfind('\n').unwrap()].to_owned();
    }
    lab.compared(&["--resume"]);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&kept));
    let (experiment, Records { cells, .. }) = lab.results("b");
    assert_eq!((cells.len(), experiment.design.cells()), (12, 12));
    measured_once(&lab.results("b"), &text.lines().collect::<Vec<_>>());
    cells.iter().for_each(served_well);
}

#[test]
fn redis_is_started_for_each_cell_or_missed_by_name() {
    let lab = Lab::new(
        "title = 'a'\n[[experiment]]\nname = 'b'\nservice = 'guestbook'\nstore = 'redis'\n\
         redis-calls = 'separate'\narchitectures = ['threads']\nconcurrency = [2]\nrepeats = 1\n\
         window = '300ms'\nwarm-up = '0s'",
    );
    lab.compared(&[]);
    let (experiment, Records { cells, .. }) = lab.results("b");
    assert!(experiment.machine.settings["store"].contains("a new redis-server for each cell"));
    assert!(experiment.design.server_arguments.contains(&"--redis-calls=separate".to_owned()));
    cells.iter().for_each(served_well);

    fs::remove_dir_all(lab.directory.path().join("out")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.current_dir(lab.directory.path()).env("PATH", "/nonexistent");
    assert!(command.args(["compare", "plan.toml", "--out=out"]).status().unwrap().success());
    let lacking = Outcome::lacking("needs redis-server: apt-get install redis-server");
    assert_eq!(lab.results("b").1.cells[0].outcome, lacking);
}

/// A plan with this program as its own peer. The peer writes its process identifier to a file.
fn plan_with_peer(window: &str) -> String {
    let served = env!("CARGO_BIN_EXE_served");
    format!(
        "title = 'Mine?'
[[experiment]]
name = 'beside'
architectures = ['epoll']
control = false
peers = ['mine', 'absent']
concurrency = [2]
repeats = 1
warm-up = '0s'
window = '{window}'
[[peer]]
name = 'mine'
command = ['sh', '{{configuration}}', '{{host}}:{{port}}']
configuration = 'echo $$ > $NOTE; exec {served} serve http -a threads --listen $1'
environment = {{ NOTE = '{{directory}}/pid' }}
ready = 'listening on'
[[peer]]
name = 'absent'
command = ['no-such-server', '{{port}}']
"
    )
}

#[test]
fn peers_are_measured_beside_architectures_and_never_recommended() {
    let lab = Lab::new(&plan_with_peer("300ms"));
    let output = lab.compare(&[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("the peer absent is the command [\"no-such-server\", \"{port}\"]"),
        "{stderr}"
    );
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("mine (peer)"), "{stdout}");
    // Peers are no candidates, so there is at most one candidate, and no choice under any load.
    assert!(
        stdout.contains("Nothing to choose: only epoll") && !stdout.contains("Use "),
        "{stdout}"
    );
    assert!(lab.read("out/beside/report.html").contains("mine (peer)"));
    let (experiment, Records { cells, .. }) = lab.results("beside");
    assert_eq!(experiment.design.peers.len(), 2);
    for cell in &cells {
        match cell.subject.as_str() {
            "absent" => {
                let lacking = Outcome::lacking("needs no-such-server: it is not on the PATH");
                assert_eq!(cell.outcome, lacking);
            }
            _ => served_well(cell),
        }
    }
    assert_eq!(cells.len(), 3);
}

#[test]
fn ready_made_peers_are_measured_or_missed_by_name() {
    let lab = Lab::new(
        "title = 'a'\n[[experiment]]\nname = 'b'\narchitectures = ['epoll']\nconcurrency = [3]\n\
         control = false\nrepeats = 1\nwindow = '300ms'\nwarm-up = '0s'",
    );
    let names: Vec<&str> = READY_MADE.iter().map(|ready| ready.name).collect();
    let flag = format!("--peers={}", names.join(","));
    lab.compared(&[&flag]);
    let (_, Records { cells, .. }) = lab.results("b");
    assert_eq!(cells.len(), 1 + names.len());
    for cell in &cells {
        match &cell.outcome {
            Outcome::Unavailable { reason, obstacle: Obstacle::Lack } => {
                assert!(reason.starts_with("needs "), "{reason}");
                assert!(reason.contains(": "), "{reason}");
                duality_conformance::skip(format_args!("{} {reason}", cell.subject));
            }
            _ => served_well(cell),
        }
    }
    // Before any start, the lab knows the cells that the servers cannot serve.
    let lab = Lab::new("title = 'a'\n[[experiment]]\nname = 'b'\nservice = 'echo'\nrepeats = 1");
    lab.compared(&[&flag, "--concurrency=1", "--architectures=epoll", "--window=300ms"]);
    let (_, Records { cells, .. }) = lab.results("b");
    let unserved = Outcome::lacking("serves http, and not echo");
    assert_eq!(cells.iter().filter(|cell| cell.outcome == unserved).count(), names.len());
}

#[test]
fn a_peer_ends_with_the_comparison_however_that_ends() {
    for signal in [Signal::INT, Signal::KILL] {
        let lab = Lab::new(&plan_with_peer("2s"));
        let scratch = lab.directory.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        let mut command = lab.command();
        let mut compare = command.env("TMPDIR", &scratch).spawn().unwrap();
        let peer = eventually("the peer starts", || {
            let directories = fs::read_dir(&scratch).unwrap();
            let notes = directories
                .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("pid")).ok());
            notes.filter_map(|note| note.trim().parse().ok()).next()
        });
        let peer = Pid::from_raw(peer).unwrap();
        kill_process(Pid::from_child(&compare), signal).unwrap();
        compare.wait().unwrap();
        if signal == Signal::KILL && Command::new("setpriv").arg("--version").output().is_err() {
            duality_conformance::skip(format_args!("there is no setpriv"));
            let _ = kill_process(peer, Signal::KILL);
            continue;
        }
        eventually("the peer ends", || test_kill_process(peer).is_err().then_some(()));
    }
}

#[test]
fn a_plan_that_is_wrong_starts_nothing() {
    for (plan, message) in [
        ("title = 'a'", "plan.toml:1:12: there is nothing to measure"),
        (&format!("{PLAN}store = 'mysql'"), "plan.toml:16:9: no store is called `mysql`"),
        (&format!("{PLAN}architectures = ['magic']"), "plan.toml:16:17: architectures: "),
        (&format!("{PLAN}peers = ['iis']"), "plan.toml:16:9: peers: there is no peer `iis`"),
        (&format!("{PLAN}peers = ['epoll']"), "plan.toml:16:9: peers: `epoll` is an architecture"),
    ] {
        let lab = Lab::new(plan);
        let output = lab.compare(&[]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with(&format!("duality: {message}")), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(!lab.directory.path().join("out").exists());
    }
}

/// Checks that a cell has figures and no wrong answers.
fn served_well(cell: &Cell) {
    if let Some(figures) = figures(cell) {
        assert!(figures.requests > 0 && figures.errors.is_empty(), "{cell:?}");
    }
}

#[test]
fn a_new_plan_is_written_once_and_explained_without_measuring() {
    let lab = Lab::new(PLAN);
    assert!(lab.run(&["plan", "new", "new.toml"]).status.success());
    let again = lab.run(&["plan", "new", "new.toml"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("new.toml: is there already"));
    let explained = lab.run(&["compare", "new.toml", "--check"]);
    assert!(explained.status.success());
    let stdout = String::from_utf8(explained.stdout).unwrap();
    for part in ["keep-alive: http", "by-the-clock: ", "cells         54", "in all        about"] {
        assert!(stdout.contains(part), "{stdout}");
    }
    let explained = lab.run(&["compare", "game", "--architectures=fork", "--check"]);
    let stdout = String::from_utf8(explained.stdout).unwrap();
    assert!(
        stdout.contains("unavailable   fork at 10, 100, 1000: needs shared memory"),
        "{stdout}"
    );
    let files = fs::read_dir(lab.directory.path()).unwrap().count();
    assert_eq!(files, 2, "the two plans, and no results");
}
