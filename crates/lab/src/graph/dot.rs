//! A graph in DOT, the language of Graphviz (graphviz.org/doc/info/lang.html).

use super::Graph;
use crate::format::duration;

pub(super) fn draw(graph: &Graph) -> String {
    let title = format!("{} under {}", graph.service, graph.architecture);
    let mut text = format!("digraph {} {{\n  label={0};\n  node [shape=box];\n", quoted(&title));
    for (index, node) in graph.nodes.iter().enumerate() {
        let wait = duration(node.mean_wait_us);
        let label = format!("{}\n{}\n{}×, wait {wait}", node.what(), node.place(), node.count);
        let style = if node.stage().is_some() { ", style=rounded" } else { "" };
        text += &format!("  n{index} [label={}{style}];\n", quoted(&label));
    }
    for edge in &graph.edges {
        let (time, cpu) = (duration(edge.mean_us), duration(edge.mean_cpu_us));
        let label = quoted(&format!("{}×, {time}, CPU {cpu}", edge.count));
        text += &format!("  n{} -> n{} [label={label}];\n", edge.from, edge.to);
    }
    text + "}\n"
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn every_node_and_edge_is_a_line() {
        let graph = example();
        let text = graph.dot();
        assert!(
            text.starts_with("digraph \"echo under epoll\" {") && text.ends_with("}\n"),
            "{text}"
        );
        assert_eq!(text.matches(" -> ").count(), graph.edges.len());
        assert_eq!(text.matches(" [label=").count(), graph.nodes.len() + graph.edges.len());
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }
}
