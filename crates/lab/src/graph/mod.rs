//! The blocking graph of a server: its data, its stages and its drawings. Blocking graphs are from
//! Capriccio (von Behren et al. 2003).

mod dot;
pub(crate) mod stages;
mod svg;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::Mistake;

/// The version of the form. The version changes when a field changes its meaning, and not for a new
/// field.
pub const VERSION: u32 = 1;

/// A blocking graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// [`VERSION`].
    pub version: u32,
    /// The service.
    pub service: String,
    /// The architecture of the server.
    pub architecture: String,
    /// The places where tasks may wait. Two nodes are special: `begin` and `end`.
    pub nodes: Vec<Node>,
    /// The work of tasks between two nodes.
    pub edges: Vec<Edge>,
}

/// An operation that may wait or a stage boundary, by the line that calls it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The name, such as `services/echo.rs:31 read`.
    pub name: String,
    /// The number of visits of tasks.
    pub count: u64,
    /// The length of a visit, on average.
    pub mean_wait_us: f64,
}

/// An edge, which leads from the end of one node to the beginning of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The index of the first node.
    pub from: usize,
    /// The index of the second node.
    pub to: usize,
    /// How often tasks took this edge.
    pub count: u64,
    /// The time that a task took, on average.
    pub mean_us: f64,
    /// The processor time that a task took, on average.
    pub mean_cpu_us: f64,
}

impl Node {
    /// The line, such as `services/echo.rs:31`. Empty for `begin` and `end`.
    #[must_use]
    pub fn place(&self) -> &str {
        self.name.split_once(' ').map_or("", |(place, _)| place)
    }

    /// The operation at the node, such as `read` or `stage http: reply`.
    #[must_use]
    pub fn what(&self) -> &str {
        self.name.split_once(' ').map_or(&self.name, |(_, what)| what)
    }

    /// The stage that begins at the node, if there is one.
    #[must_use]
    pub fn stage(&self) -> Option<&str> {
        self.what().strip_prefix("stage ")
    }
}

impl Graph {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// One line.
    pub fn read(text: &str) -> Result<Self, Mistake> {
        let graph: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let most = graph.nodes.len();
        if graph.version != VERSION || graph.edges.iter().any(|edge| edge.from.max(edge.to) >= most)
        {
            return Err(format!("it is no graph of version {VERSION}: draw it anew").into());
        }
        Ok(graph)
    }

    /// The graph in DOT, the language of Graphviz.
    #[must_use]
    pub fn dot(&self) -> String {
        dot::draw(self)
    }

    /// A drawing.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::draw(self)
    }

    fn named(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The least number of edges from `begin` to each node. `None` for a node without a path.
    fn depths(&self) -> Vec<Option<usize>> {
        let mut depths = vec![None; self.nodes.len()];
        let mut next: VecDeque<usize> = self.named("begin").into_iter().collect();
        next.iter().for_each(|begin| depths[*begin] = Some(0));
        while let Some(node) = next.pop_front() {
            for edge in self.edges.iter().filter(|edge| edge.from == node) {
                if depths[edge.to].is_none() {
                    depths[edge.to] = depths[node].map(|depth| depth + 1);
                    next.push_back(edge.to);
                }
            }
        }
        depths
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two requests on a connection.
    pub(crate) fn example() -> Graph {
        let node =
            |name: &str, count, mean_wait_us| Node { name: name.to_owned(), count, mean_wait_us };
        let edge =
            |from, to, count, mean_us, mean_cpu_us| Edge { from, to, count, mean_us, mean_cpu_us };
        Graph {
            version: VERSION,
            service: "echo".to_owned(),
            architecture: "epoll".to_owned(),
            nodes: vec![
                node("begin", 1, 5.0),
                node("end", 1, 0.0),
                node("services/echo.rs:30 stage echo", 3, 0.2),
                node("services/echo.rs:31 read", 3, 40.0),
                node("services/echo.rs:35 write", 2, 7.0),
            ],
            edges: vec![
                edge(0, 2, 1, 1.0, 1.0),
                edge(2, 3, 3, 0.5, 0.4),
                edge(3, 1, 1, 0.1, 0.1),
                edge(3, 4, 2, 2.0, 1.5),
                edge(4, 2, 2, 0.3, 0.2),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_nothing_else() {
        let graph = example();
        let text = serde_json::to_string(&graph).unwrap();
        assert_eq!(Graph::read(&text), Ok(graph));
        assert!(Graph::read("{}").is_err());
        assert!(Graph::read(&text.replace("\"to\":4", "\"to\":5")).is_err());
        assert!(Graph::read(&text.replace("\"version\":1", "\"version\":9")).is_err());
    }

    #[test]
    fn depths_count_from_the_beginning() {
        assert_eq!(example().depths(), [Some(0), Some(3), Some(1), Some(2), Some(3)]);
    }
}
