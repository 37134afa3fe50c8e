//! The blocking graph as a file, written after the server's end.

use std::path::PathBuf;
use std::str::FromStr;

use duality_architectures::common::pressure::remedy;
use duality_lab::graph::{self, Graph};
use duality_lab::page::write_whole;
use duality_runtime::visibility::{self, Edge, Node};

use super::Subject;
use crate::failure::{Blame, Failure, Party};

/// The file of a graph, and its form.
#[derive(Clone, Debug)]
pub(crate) struct GraphFile {
    pub(crate) path: PathBuf,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Svg,
    Dot,
    Json,
}

impl FromStr for GraphFile {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = PathBuf::from(text);
        let form = match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Form::Svg,
            Some("dot") => Form::Dot,
            Some("json") => Form::Json,
            _ => return Err("the name ends with .svg, .dot or .json, which says the form"),
        };
        Ok(Self { path, form })
    }
}

impl GraphFile {
    /// Writes the graph in the form of the file.
    pub(crate) fn write(&self, graph: &Graph) -> Result<(), Failure> {
        self.fill(&match self.form {
            Form::Svg => graph.svg(),
            Form::Dot => graph.dot(),
            Form::Json => serde_json::to_string(graph).expect("a graph is plain data") + "\n",
        })
    }

    fn fill(&self, text: &str) -> Result<(), Failure> {
        write_whole(&self.path, text).blame_at(Party::Machine, self.path.display())
    }
}

/// A graph that is being drawn.
pub(super) struct Drawing {
    file: GraphFile,
    subject: Subject,
}

impl Drawing {
    /// Begins the graph. The file is created now, so that a wrong name causes an error at once.
    pub(super) fn begin(file: &GraphFile, subject: Subject) -> Result<Self, Failure> {
        file.fill("").blame_at(Party::Machine, "--graph")?;
        visibility::prepare_graph().map_err(|error| {
            Failure::new(Party::Machine, format!("--graph: {error}{}", remedy(&error)))
        })?;
        Ok(Self { file: file.clone(), subject })
    }

    /// Writes it.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let (nodes, edges) = visibility::graph();
        let graph = Graph {
            version: graph::VERSION,
            service: self.subject.service,
            architecture: self.subject.architecture.to_owned(),
            nodes: nodes.iter().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
        };
        self.file.write(&graph).blame_at(Party::Machine, "--graph")
    }
}

fn node(node: &Node) -> graph::Node {
    let mean_wait_us = mean_us(node.waited_ns, node.count);
    graph::Node { name: node.name.clone(), count: node.count, mean_wait_us }
}

fn edge(edge: &Edge) -> graph::Edge {
    graph::Edge {
        from: edge.from,
        to: edge.to,
        count: edge.count,
        mean_us: mean_us(edge.elapsed_ns, edge.count),
        mean_cpu_us: mean_us(edge.cpu_ns, edge.count),
    }
}

fn mean_us(nanoseconds: u64, count: u64) -> f64 {
    nanoseconds as f64 / 1e3 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_end_of_the_name_says_the_form() {
        let directory = tempfile::tempdir().unwrap();
        let graph = Graph {
            version: graph::VERSION,
            service: "echo".to_owned(),
            architecture: "epoll".to_owned(),
            nodes: vec![graph::Node { name: "begin".to_owned(), count: 1, mean_wait_us: 0.0 }],
            edges: Vec::new(),
        };
        for (name, begin) in [("a.svg", "<svg"), ("a.dot", "digraph"), ("a.json", "{")] {
            let path = directory.path().join(name);
            let file: GraphFile = path.to_str().unwrap().parse().unwrap();
            file.write(&graph).unwrap();
            let text = fs::read_to_string(path).unwrap();
            assert!(text.starts_with(begin), "{name}: {text}");
        }
        for name in ["a.png", "a", ""] {
            assert!(name.parse::<GraphFile>().unwrap_err().contains(".svg"), "{name}");
        }
    }
}
