//! A graph on the terminal.

use super::stages::{Stage, stages};
use super::{Graph, microseconds};
use crate::format::grouped;

/// Tables of edges and stages, and a sentence on the bottleneck.
pub(super) fn tell(graph: &Graph) -> String {
    let mut text = format!("{} under {}\n\n", graph.service, graph.architecture);
    let rows = graph.nodes.iter().map(|node| {
        [node.name.clone(), grouped(node.count as f64), microseconds(node.mean_wait_us)]
    });
    text += &table(["node", "times", "wait"], rows);
    // A node, with its edges on the lines below, because one line has no room for both.
    let mut from = None;
    let rows = graph.edges.iter().flat_map(|edge| {
        let is_next = from.replace(edge.from) != Some(edge.from);
        let head =
            [graph.nodes[edge.from].name.clone(), String::new(), String::new(), String::new()];
        let to = format!("→ {}", graph.nodes[edge.to].name);
        let times = grouped(edge.count as f64);
        let row = [to, times, microseconds(edge.mean_us), microseconds(edge.mean_cpu_us)];
        is_next.then_some(head).into_iter().chain([row])
    });
    text += "\n";
    text += &table(["edge", "times", "time", "CPU"], rows);
    let stages = stages(graph);
    let rows = stages.iter().map(|stage| {
        let each = |sum: f64| microseconds(sum / stage.count.max(1) as f64);
        let count = grouped(stage.count as f64);
        [
            stage.name.to_owned(),
            count,
            each(stage.cpu_us),
            each(stage.queued_us),
            each(stage.waited_us),
        ]
    });
    text += "\n";
    text += &table(["stage", "times", "CPU", "in queue", "waits within"], rows);
    text + "\n" + &bottleneck(&stages)
}

/// The stage with the most processor time, and the stage that tasks wait for longest.
fn bottleneck(stages: &[Stage<'_>]) -> String {
    let most = |of: fn(&Stage<'_>) -> f64| {
        let stage = stages.iter().max_by(|one, other| of(one).total_cmp(&of(other)))?;
        let all: f64 = stages.iter().map(of).sum();
        (all > 0.0).then(|| (stage.name, 100.0 * of(stage) / all))
    };
    let mut text = String::new();
    if let Some((name, share)) = most(|stage| stage.cpu_us) {
        text += &format!("Most processor time goes to the stage {name}: {share:.0} %.\n");
    }
    if let Some((name, share)) = most(|stage| stage.queued_us) {
        text += &format!("Most of the time in queues is spent in front of {name}: {share:.0} %.\n");
    }
    text
}

fn table<const COLUMNS: usize>(
    head: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> String {
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let line = |row: &[String; COLUMNS]| {
        let mut line = format!("{:1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            line += &format!("  {cell:>width$}");
        }
        line.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;

    #[test]
    fn the_bottleneck_is_named() {
        let text = example().text();
        assert!(text.contains("goes to the stage echo"), "{text}");
        assert!(text.contains("services/echo.rs:31 read\n→ end  "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
