//! `duality compare --host`: tests roles on hosts, by launchers that need neither root nor a
//! daemon.
//!
//! Here, a host is a process on this machine: the launcher starts a shell with the host's name in
//! its environment. `xtask/src/hosts` makes hosts with their own networks; docs/hosts.md has the
//! results on such hosts.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use duality_conformance::{eventually, figures, skip};
use duality_lab::record::{Heading, Outcome, Records, results};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The launcher that starts a shell "on a host".
const LAUNCHER: &str = "env DUALITY_TEST_HOST={host}";

/// A comparison on its own hosts.
struct Lab {
    directory: TempDir,
    /// The end of the name of every host.
    mark: String,
}

impl Lab {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().file_name().unwrap().to_string_lossy().into_owned();
        Self { directory, mark: name.trim_start_matches('.').to_owned() }
    }

    fn host(&self, name: &str) -> String {
        format!("{name}-{}", self.mark)
    }

    fn command(&self, roles: &[(&str, &str)], flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        command.current_dir(self.directory.path());
        command.env("XDG_CACHE_HOME", self.directory.path().join("cache"));
        command.args(["compare", "--launcher", LAUNCHER, "--out", "out", "--no-control"]);
        for (role, name) in roles {
            command.args(["--host", &format!("{role}={}@127.0.0.1", self.host(name))]);
        }
        command.args(flags);
        command
    }

    fn compare(&self, roles: &[(&str, &str)], flags: &[&str]) -> Output {
        self.command(roles, flags).output().unwrap()
    }

    fn results(&self) -> (Heading, Records) {
        results::read(&[self.directory.path().join("out/results.jsonl")]).unwrap()
    }

    /// The processes of a host: the processes with its name in their environment.
    fn processes(&self, name: &str) -> Vec<Pid> {
        let mark = format!("DUALITY_TEST_HOST={}", self.host(name));
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
            })
            .filter_map(Pid::from_raw)
            .collect()
    }

    /// The agent of a host.
    fn agent(&self, name: &str) -> Option<Pid> {
        self.processes(name).into_iter().find(|pid| {
            let path = PathBuf::from(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            let words = fs::read(path).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(b"agent")
        })
    }

    fn nothing_is_left(&self, names: &[&str]) {
        for name in names {
            eventually("the host is empty", || self.processes(name).is_empty().then_some(()));
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// The flags of a comparison that is soon over.
fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let short = ["--repeats=2", "--window=100ms", "--warm-up=0", "--blocks=2", "-c", "3"];
    short.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn two_loads_make_one_load_and_nothing_is_left_of_it() {
    let lab = Lab::new();
    let roles = [("server", "web"), ("load", "gen1"), ("load", "gen2")];
    let output = lab.compare(&roles, &short(&["http", "-a", "epoll,fork"]));
    assert!(output.status.success(), "{}", said(&output));
    lab.nothing_is_left(&["web", "gen1", "gen2"]);
    let (heading, records) = lab.results();
    let hosts: Vec<&String> = heading.hosts.keys().collect();
    assert_eq!(hosts.len(), 3, "{hosts:?}");
    assert!(heading.hosts.values().all(|machine| machine.kernel.starts_with("Linux ")));
    assert_eq!((records.cells.len(), records.blocks.len() >= 4), (4, true));
    for cell in &records.cells {
        let Some(figures) = figures(cell) else { continue };
        assert!(figures.errors.is_empty(), "{figures:?}");
        assert!(figures.connections_opened >= 3, "of both loads: {figures:?}");
        assert!(figures.round_trip_us.is_some_and(|time| time > 0.0));
        assert!(figures.server_cpu_us_per_request > 0.0 && figures.server_peak_bytes > 0);
        let found = figures.disturbance.as_ref().unwrap();
        assert!(found.processors.iter().all(|processor| processor.host.is_some()), "{found:?}");
    }
    // A slice of a busy machine may have no reply.
    let slices = || records.blocks.iter().flat_map(|block| &block.slices);
    assert!(slices().all(|slice| slice.failures == 0), "{:?}", records.blocks);
    assert!(slices().any(|slice| slice.requests > 0 && slice.server_cpu_us > 0.0));
    let page = fs::read_to_string(lab.directory.path().join("out/report.html")).unwrap();
    assert!(page.contains(&lab.host("gen2")), "the report names the hosts");
}

#[test]
fn the_program_is_sent_once_and_kept_by_its_hash() {
    let lab = Lab::new();
    let roles = [("server", "web"), ("load", "web")];
    let once = ["http", "-a", "epoll", "-c", "2", "--repeats=1", "--blocks=0", "--window=100ms"];
    for _ in 0..2 {
        let output = lab.compare(&roles, &once);
        assert!(output.status.success(), "{}", said(&output));
        fs::remove_dir_all(lab.directory.path().join("out")).unwrap();
        let cached: Vec<_> =
            fs::read_dir(lab.directory.path().join("cache/duality")).unwrap().flatten().collect();
        assert_eq!(cached.len(), 1, "{cached:?}");
    }
    // The agent does not start a program that was changed on its host.
    let cached = fs::read_dir(lab.directory.path().join("cache/duality")).unwrap();
    let cached = cached.flatten().next().unwrap().path();
    fs::write(&cached, "#!/bin/sh\nexit 7\n").unwrap();
    let output = lab.compare(&roles, &once);
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::metadata(&cached).unwrap().len() > 1000, "it has been sent again");
}

#[test]
fn servers_behind_a_balancer_share_a_store() {
    for program in ["nginx", "redis-server"] {
        if !is_installed(program) {
            return skip(format_args!("servers_behind_a_balancer: no {program}"));
        }
    }
    let lab = Lab::new();
    let roles = [
        ("server", "web1"),
        ("server", "web2"),
        ("balancer", "front"),
        ("store", "redis"),
        ("load", "gen"),
    ];
    let output =
        lab.compare(&roles, &short(&["guestbook", "--store=redis", "-a", "epoll,threads"]));
    assert!(output.status.success(), "{}", said(&output));
    lab.nothing_is_left(&["web1", "web2", "front", "redis", "gen"]);
    let (heading, records) = lab.results();
    assert_eq!(heading.hosts.len(), 5);
    for cell in &records.cells {
        let Some(figures) = figures(cell) else { continue };
        assert!(figures.errors.is_empty() && figures.requests > 0, "{figures:?}");
    }
}

/// Waits until a comparison has measured its first cell.
fn under_way(lab: &Lab, child: &mut Child) {
    let results = lab.directory.path().join("out/results.jsonl");
    eventually("the first cell", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended too soon");
        let lines = fs::read_to_string(&results).unwrap_or_default();
        lines.contains("\"kind\":\"cell\"").then_some(())
    });
}

/// The flags of a comparison of two architectures that takes some seconds for each repeat.
fn long(repeats: &str) -> [&str; 9] {
    ["http", "-a", "epoll,threads", "-c", "4", "--window=1s", "--blocks=0", "--repeats", repeats]
}

fn begin(lab: &Lab, repeats: &str) -> Child {
    let mut command = lab.command(&TWO, &long(repeats));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

const TWO: [(&str, &str); 2] = [("server", "web"), ("load", "gen")];

#[test]
fn nothing_is_left_on_any_host_when_the_coordinator_is_killed() {
    let lab = Lab::new();
    let mut child = begin(&lab, "100");
    under_way(&lab, &mut child);
    assert!(lab.agent("web").is_some() && lab.agent("gen").is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    lab.nothing_is_left(&["web", "gen"]);
}

#[test]
fn a_host_that_dies_is_named_and_the_rest_is_measured() {
    for dying in ["web", "gen"] {
        let lab = Lab::new();
        let mut child = begin(&lab, "3");
        under_way(&lab, &mut child);
        let agent = lab.agent(dying).unwrap();
        kill_process(agent, Signal::KILL).unwrap();
        let status = eventually("the end", || child.try_wait().unwrap());
        lab.nothing_is_left(&["web", "gen"]);
        let (_, records) = lab.results();
        assert_eq!(records.cells.len(), 6, "{status:?}");
        let host = lab.host(dying);
        let failed = records.cells.iter().filter_map(|cell| match &cell.outcome {
            Outcome::Failed { reason } => Some(reason),
            _ => None,
        });
        let failed: Vec<&String> = failed.collect();
        assert!(failed.len() <= 2 && failed.iter().all(|why| why.contains(&host)), "{failed:?}");
        // A failed cell is measured when the comparison is resumed.
        let output = lab.command(&TWO, &long("3")).arg("--resume").output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let (_, records) = lab.results();
        records.cells.iter().for_each(|cell| _ = figures(cell));
    }
}

#[test]
fn a_server_is_controlled_over_pipes_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "echo", "--control", "--listen=127.0.0.1:0"]);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(server.stdout.take().unwrap()).lines();
    assert!(stdout.next().unwrap().unwrap().starts_with(r#"{"ready":{"address":"127.0.0.1:"#));
    let mut orders = server.stdin.take().unwrap();
    orders.write_all(b"counters\n").unwrap();
    let counters = stdout.next().unwrap().unwrap();
    assert!(counters.starts_with(r#"{"counters":{"#) && counters.contains(r#""cpu_us":"#));
    drop(orders);
    assert!(eventually("the drain", || server.try_wait().unwrap()).success());
}

#[test]
fn what_cannot_work_is_one_line_before_anything_starts() {
    let lab = Lab::new();
    for (flags, message) in [
        (&["--host", "server=a"][..], "no host has the role load"),
        (&["--host", "web1"], "has no role"),
        (&["--launcher", "ssh"], "no hosts are named"),
        (&["--host", "server=a", "--host", "load=b", "--launcher", "telnet"], "is no launcher"),
        (
            &["--host", "server=a", "--host", "server=b", "--host", "load=c"],
            "2 servers need a balancer",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        let output = command.args(["compare", "http"]).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let said = said(&output);
        assert!(said.contains(message) && said.lines().count() == 1, "{said}");
    }
    for (launcher, message, code) in [
        ("false {host}", "is lost", 1),
        ("sh -c 'echo no route >&2; exit 255' {host}", "no route", 1),
        ("/nonexistent/launcher {host}", "no such program", 2),
    ] {
        let mut command = lab.command(&TWO, &["http"]);
        let output = command.args(["--launcher", launcher]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(message), "{launcher}: {}", said(&output));
        assert!(said(&output).contains("host web-"), "{}", said(&output));
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(program)).any(|path: PathBuf| Path::is_file(&path))
}
