//! Where a service may wait: the nodes, edges and stages of its blocking graph, and the stage that
//! is the bottleneck.

use crate::format::{duration, grouped};
use crate::graph::Graph;
use crate::graph::stages::{Stage, stages};
use crate::tell::sheet::{Part, Sheet, Table, left, right};

/// The sheet of a graph.
pub fn sheet(graph: &Graph) -> Sheet {
    let title = format!("{} under {}", graph.service, graph.architecture);
    let stages = stages(graph);
    let mut sheet = Sheet::new(&title);
    sheet.add([Part::sentence(title)]);
    for table in [nodes(graph), edges(graph), of_stages(&stages)] {
        sheet.add([Part::Table(table)]);
    }
    sheet.add(bottlenecks(&stages).map(Part::sentence));
    sheet
}

fn nodes(graph: &Graph) -> Table {
    let rows = graph.nodes.iter().map(|node| {
        vec![node.name.clone(), grouped(node.count as f64), duration(node.mean_wait_us)]
    });
    Table::new([left("node"), right("times"), right("wait")], rows)
}

/// Each node, with its edges on the rows below, because one line has no room for both.
fn edges(graph: &Graph) -> Table {
    let mut from = None;
    let rows = graph.edges.iter().flat_map(|edge| {
        let is_next = from.replace(edge.from) != Some(edge.from);
        let head = is_next.then(|| vec![graph.nodes[edge.from].name.clone()]);
        let to = format!("→ {}", graph.nodes[edge.to].name);
        let [time, cpu] = [edge.mean_us, edge.mean_cpu_us].map(duration);
        head.into_iter().chain([vec![to, grouped(edge.count as f64), time, cpu]])
    });
    Table::new([left("edge"), right("times"), right("time"), right("CPU")], rows)
}

fn of_stages(stages: &[Stage<'_>]) -> Table {
    let rows = stages.iter().map(|stage| {
        let each = |sum: f64| duration(sum / stage.count.max(1) as f64);
        let [cpu, queued, waited] = [stage.cpu_us, stage.queued_us, stage.waited_us].map(each);
        vec![stage.name.to_owned(), grouped(stage.count as f64), cpu, queued, waited]
    });
    let figures = ["times", "CPU", "in queue", "waits within"].map(right);
    Table::new([left("stage")].into_iter().chain(figures), rows)
}

/// The stage with the most processor time, and the stage that tasks wait for longest.
fn bottlenecks(stages: &[Stage<'_>]) -> impl Iterator<Item = String> {
    let most = |of: fn(&Stage<'_>) -> f64| {
        let stage = stages.iter().max_by(|one, other| of(one).total_cmp(&of(other)))?;
        let all: f64 = stages.iter().map(of).sum();
        (all > 0.0).then(|| (stage.name, 100.0 * of(stage) / all))
    };
    let cpu = most(|stage| stage.cpu_us).map(|(name, share)| {
        format!("Most processor time goes to the stage {name}: {share:.0} %.")
    });
    let queue = most(|stage| stage.queued_us).map(|(name, share)| {
        format!("Most of the time in queues is spent in front of {name}: {share:.0} %.")
    });
    cpu.into_iter().chain(queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::example;
    use crate::tell::render::text::{TERMINAL, text};

    #[test]
    fn the_bottleneck_is_named() {
        let text = text(&sheet(&example()), TERMINAL);
        assert!(text.contains("goes to the stage echo"), "{text}");
        assert!(text.contains("services/echo.rs:31 read\n→ end  "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
