//! The blocking graph as a file, written when the server has ended.

use std::path::{Path, PathBuf};

use duality_architectures::common::pressure::remedy;
use duality_lab::graph::{self, Graph};
use duality_lab::page::write_whole;
use duality_runtime::visibility::{self, Edge, Node};

use super::Subject;

/// A graph that is being drawn.
pub(super) struct Drawing {
    path: PathBuf,
    subject: Subject,
}

impl Drawing {
    /// Begins to draw. The file is made now, so that a wrong name is told at once.
    pub(super) fn begin(path: &Path, subject: Subject) -> Result<Self, String> {
        write_whole(path, "").map_err(|error| format!("--graph: {}: {error}", path.display()))?;
        visibility::prepare_graph()
            .map_err(|error| format!("--graph: {error}{}", remedy(&error)))?;
        Ok(Self { path: path.to_owned(), subject })
    }

    /// Writes it.
    pub(super) fn finish(self) -> Result<(), String> {
        let (nodes, edges) = visibility::graph();
        let graph = Graph {
            version: graph::VERSION,
            service: self.subject.service,
            architecture: self.subject.architecture.to_owned(),
            nodes: nodes.iter().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
        };
        let text = serde_json::to_string(&graph).expect("it is plain data") + "\n";
        write_whole(&self.path, &text)
            .map_err(|error| format!("--graph: {}: {error}", self.path.display()))
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
