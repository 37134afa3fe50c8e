//! Tests the blocking graph of one service and one conversation. The graph is the same under every
//! architecture, and a task that comes to a node leaves it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::OnceLock;

use duality_conformance::{ServerProcess, for_every_architecture_of_straight_line_code, runs_here};
use rustix::process::Signal;
use serde_json::Value;

macro_rules! graph {
    ($name:ident $architecture:expr) => {
        #[test]
        fn $name() {
            if runs_here(&$architecture) {
                the_graph_is_that_of_threads(&$architecture);
            }
        }
    };
}

for_every_architecture_of_straight_line_code!(graph);

/// The names of nodes, with the number of tasks that came to each, and the edges by the names of
/// their ends.
#[derive(Debug, PartialEq)]
struct Graph {
    nodes: BTreeMap<String, u64>,
    edges: BTreeMap<(String, String), u64>,
}

/// The graph of the guestbook after one client has looked, signed, looked again and left, and then
/// another has looked.
fn conversation(architecture: &[&str]) -> Graph {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("graph.json");
    let store = format!("--store=sqlite:{}", directory.path().join("store").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "guestbook", "--listen=127.0.0.1:0", &store, "--architecture"]);
    let server = ServerProcess::start(command.args(architecture).arg("--graph").arg(&file));
    let look = "GET /guestbook HTTP/1.1\r\nHost: test\r\n";
    let form = "guest-name=ann&guest-remarks=hello";
    let sign = format!(
        "POST /guestbook HTTP/1.1\r\nHost: test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let mut first = server.connect();
    for request in [&format!("{look}\r\n"), &sign, &format!("{look}\r\n")] {
        ask(&mut first, request);
    }
    drop(first);
    ask(&mut server.connect(), &format!("{look}Connection: close\r\n\r\n"));
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{architecture:?}");
    read(&serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap(), architecture)
}

/// Sends a request, and reads its reply to the end.
fn ask(stream: &mut TcpStream, request: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = match stream.read(&mut piece) {
            // The end of a ring that another test of this process tried interrupts system calls.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.unwrap(),
        };
        reply.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&reply);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split_once("Content-Length: ").expect("it says how long it is").1;
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if body.len() >= length {
            return;
        }
        assert!(count > 0, "{text}");
    }
}

fn read(graph: &Value, architecture: &[&str]) -> Graph {
    assert_eq!(graph["version"], 1);
    assert_eq!(
        (graph["service"].as_str(), graph["architecture"].as_str()),
        (Some("guestbook"), Some(architecture[0]))
    );
    let nodes = graph["nodes"].as_array().unwrap();
    let name = |node: &Value| node["name"].as_str().unwrap().to_owned();
    let count = |of: &Value| of["count"].as_u64().unwrap();
    for edge in graph["edges"].as_array().unwrap() {
        let (time, cpu) =
            (edge["mean_us"].as_f64().unwrap(), edge["mean_cpu_us"].as_f64().unwrap());
        assert!(time >= 0.0 && cpu >= 0.0, "{edge}");
    }
    let end = |edge: &Value, which: &str| name(&nodes[edge[which].as_u64().unwrap() as usize]);
    let edges = graph["edges"].as_array().unwrap().iter();
    Graph {
        nodes: nodes.iter().map(|node| (name(node), count(node))).collect(),
        edges: edges.map(|edge| ((end(edge, "from"), end(edge, "to")), count(edge))).collect(),
    }
}

fn the_graph_is_that_of_threads(architecture: &[&str]) {
    static THREADS: OnceLock<Graph> = OnceLock::new();
    let graph = conversation(architecture);
    flows(&graph);
    assert_eq!(graph, *THREADS.get_or_init(|| conversation(&["threads"])), "{architecture:?}");
}

/// Checks that a task that comes to a node leaves it, except at the first and the last node. Checks
/// that the graph has the expected nodes.
fn flows(graph: &Graph) {
    let names: BTreeSet<&str> = graph.nodes.keys().map(String::as_str).collect();
    for (name, count) in &graph.nodes {
        let sum = |which: fn(&(String, String)) -> &String| -> u64 {
            graph.edges.iter().filter(|(ends, _)| which(ends) == name).map(|(_, count)| count).sum()
        };
        let (into, out) = (sum(|ends| &ends.1), sum(|ends| &ends.0));
        match name.as_str() {
            "begin" => assert_eq!((into, out), (0, *count), "{graph:?}"),
            "end" => assert_eq!((into, out), (*count, 0), "{graph:?}"),
            _ => assert_eq!((into, out), (*count, *count), "{name} of {graph:?}"),
        }
    }
    assert_eq!((graph.nodes["begin"], graph.nodes["end"]), (2, 2), "two connections");
    for wanted in ["stage guestbook: visit", "stage guestbook: sign", " read", " write", " offload"]
    {
        assert!(names.iter().any(|name| name.ends_with(wanted)), "{wanted} among {names:?}");
    }
}
