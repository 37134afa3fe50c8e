//! `--live`: a page that follows a command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;

/// A command under way, and its page.
struct Shown {
    child: Child,
    page: SocketAddr,
}

impl Shown {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_duality"))
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let told = lines.by_ref().map(Result::unwrap).find_map(|line| {
            line.strip_prefix("live page at http://").map(|rest| rest.trim_end_matches('/').parse())
        });
        // The command goes on to write.
        thread::spawn(move || lines.for_each(drop));
        Self { child, page: told.unwrap().unwrap() }
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.page).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    }

    /// All states until the last one.
    fn states(&self) -> Vec<Value> {
        self.states_with(|_| ())
    }

    /// The same, each of which `look` sees as it comes.
    fn states_with(&self, mut look: impl FnMut(&Value)) -> Vec<Value> {
        let lines = BufReader::new(self.ask("/events")).lines().map_while(Result::ok);
        let states = lines.filter_map(|line| {
            let state = line.strip_prefix("data: ")?;
            Some(serde_json::from_str::<Value>(state).unwrap())
        });
        let mut all = Vec::new();
        for state in states {
            look(&state);
            let is_over = state["over"] == true;
            all.push(state);
            if is_over {
                break;
            }
        }
        all
    }

    /// All states until the last one. When a state is `begun`, `then` is done once.
    fn states_after(&self, begun: impl Fn(&Value) -> bool, then: impl FnOnce(&Self)) -> Vec<Value> {
        let mut then = Some(then);
        self.states_with(|state| {
            if begun(state)
                && let Some(then) = then.take()
            {
                then(self);
            }
        })
    }

    /// Sends a signal to a process.
    fn signal(signal: &str, process: u32) {
        let sent = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// A server that the command has started.
    fn server(&self) -> Option<u32> {
        let own = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
        let mut children = children.split_whitespace().filter_map(|one| one.parse().ok());
        children.find(|one: &u32| {
            let command = std::fs::read_to_string(format!("/proc/{one}/cmdline"));
            command.is_ok_and(|command| command.split('\0').nth(1) == Some("serve"))
        })
    }

    /// The addresses at which the command listens, those of its children left out.
    fn listens_at(&self) -> Vec<SocketAddr> {
        let links = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        let own: Vec<String> = links.map(|link| link.display().to_string()).collect();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let listening = table.lines().skip(1).filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_own = own.contains(&format!("socket:[{}]", fields[9]));
            (fields[3] == "0A" && is_own).then(|| address(fields[1]))
        });
        let six = std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
        assert!(!six.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields[3] == "0A" && own.contains(&format!("socket:[{}]", fields[9]))
        }));
        listening.collect()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address in the form of `/proc/net/tcp`: the bytes of IPv4 in reverse.
fn address(text: &str) -> SocketAddr {
    let (host, port) = text.split_once(':').unwrap();
    let host = u32::from_str_radix(host, 16).unwrap().swap_bytes();
    (Ipv4Addr::from(host), u16::from_str_radix(port, 16).unwrap()).into()
}

/// The texts of the cells of a map.
fn cells(state: &Value) -> Vec<String> {
    let rows = state["tables"][0]["rows"].as_array().unwrap();
    let cells = rows.iter().flat_map(|row| row["cells"].as_array().unwrap());
    cells.map(|cell| cell["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_map_of_a_comparison_fills_and_ends_with_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let named = out.display().to_string();
    let shown = Shown::start(&[
        "compare",
        "--live",
        "-a",
        "epoll,threads",
        "-c",
        "1",
        "--budget",
        "8s",
        "--out",
        &named,
    ]);
    assert_eq!(shown.listens_at(), [shown.page]);
    assert_eq!(shown.page.ip(), Ipv4Addr::LOCALHOST);
    // These clients are never served, and hinder neither the page nor the comparison.
    let _silent: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(shown.page).unwrap()).collect();
    let states = shown.states();
    let has_map = |state: &&Value| !state["tables"].as_array().unwrap().is_empty();
    let first = states.iter().find(has_map).unwrap();
    let last = states.last().unwrap();
    assert!(cells(first).iter().any(|text| text == "·"), "{first}");
    assert!(cells(last).iter().all(|text| text != "·"), "{last}");
    let has_interval =
        |state: &Value| has_map(&state) && cells(state).iter().any(|text| text.contains(" to "));
    assert!(states.iter().any(has_interval), "{last}");
    let report = out.join("report.html");
    assert_eq!(last["report"], report.display().to_string());
    let mut kept = String::new();
    shown.ask("/report").read_to_string(&mut kept).unwrap();
    assert!(kept.ends_with(&std::fs::read_to_string(report).unwrap()));
}

#[test]
fn a_load_is_shown_with_its_figures() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_duality"))
        .args(["serve", "echo", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let target = format!("echo://{}", line.trim().strip_prefix("listening on ").unwrap());
    let shown = Shown::start(&["load", "--live", "-c", "2", "-d", "2s", &target]);
    let states = shown.states();
    let last = states.last().unwrap();
    assert_eq!(last["title"], format!("load {target}"));
    assert_eq!(last["figures"][0]["name"], "requests/s");
    assert!(states.iter().any(|state| state["spark"].is_object()), "{last}");
    assert!(!last["tables"][0]["rows"].as_array().unwrap().is_empty());
    drop(shown);
    let shown = Shown::start(&["load", "--live", "-c", "2", "-d", "600s", &target]);
    let has_rate = |state: &Value| state["spark"].is_object();
    let states = shown.states_after(has_rate, |shown| Shown::signal("-INT", shown.child.id()));
    let last = states.last().unwrap();
    assert!(last["now"].as_str().unwrap().to_lowercase().contains("interrupted"), "{last}");
    drop(shown);
    server.kill().unwrap();
    server.wait().unwrap();
}

/// A comparison that takes longer than a test, with further arguments.
fn long(more: &[&str]) -> Shown {
    let usual = ["compare", "--live", "-a", "epoll,threads", "-c", "1", "--blocks", "2000"];
    Shown::start(&[&usual, more].concat())
}

/// Whether a block has been measured.
fn has_block(state: &Value) -> bool {
    let figures = state["figures"].as_array().unwrap();
    figures.iter().any(|one| one["name"] == "blocks" && one["value"] != "0")
}

#[test]
fn an_interrupted_comparison_says_so_and_leads_to_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let shown = long(&["--out", &out.display().to_string()]);
    let states = shown.states_after(has_block, |shown| Shown::signal("-INT", shown.child.id()));
    let last = states.last().unwrap();
    assert!(last["now"].as_str().unwrap().starts_with("interrupted after "), "{last}");
    assert_eq!(last["report"], out.join("report.html").display().to_string());
}

#[test]
fn an_interrupted_plan_says_so_and_leads_to_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let experiment = "service = \"http\"\narchitectures = [\"epoll\", \"threads\"]\n\
                      concurrency = [1]\nblocks = 2000\n";
    let text =
        format!("title = \"T\"\nsource = \"S\"\n\n[[experiment]]\nname = \"one\"\n{experiment}");
    std::fs::write(&plan, text).unwrap();
    let out = folder.path().join("out");
    let [plan, named] = [&plan, &out].map(|path| path.display().to_string());
    let shown = Shown::start(&["compare", &plan, "--live", "--out", &named]);
    let states = shown.states_after(has_block, |shown| Shown::signal("-TERM", shown.child.id()));
    let last = states.last().unwrap();
    assert!(last["now"].as_str().unwrap().contains("interrupted in the experiment one"), "{last}");
    assert_eq!(last["report"], out.join("index.html").display().to_string());
}

#[test]
fn a_comparison_of_which_a_server_is_killed_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let usual = ["compare", "--live", "-a", "epoll,threads", "-c", "1", "--budget", "8s"];
    let shown = Shown::start(&[&usual[..], &["--out", &out]].concat());
    let kill = |shown: &Shown| Shown::signal("-KILL", shown.server().expect("a server runs"));
    let states = shown.states_after(has_block, kill);
    let last = states.last().unwrap();
    assert!(last["over"] == true && last["report"].is_string(), "{last}");
}

#[test]
fn an_interrupted_trial_has_an_end() {
    let listen = ["--candidates", "a=epoll,b=epoll", "--listen", "127.0.0.1:0"];
    let shown =
        Shown::start(&[&["trial", "http", "--live"], &listen[..], &["--then", "exit"]].concat());
    let has_begun = |state: &Value| !state["tables"].as_array().unwrap().is_empty();
    let states = shown.states_after(has_begun, |shown| Shown::signal("-INT", shown.child.id()));
    assert_eq!(states.last().unwrap()["over"], true);
}
