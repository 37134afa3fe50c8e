//! The stages of a graph. A stage reaches from one stage boundary to the next.

use super::Graph;

/// The sums of a stage.
pub(crate) struct Stage<'g> {
    pub(crate) name: &'g str,
    /// The number of times that tasks began the stage.
    pub(crate) count: u64,
    /// Processor time.
    pub(crate) cpu_us: f64,
    /// The waits at the stage's boundary, which are the time in its queue.
    pub(crate) queued_us: f64,
    /// The waits within the stage, except waits for the client's next request.
    pub(crate) waited_us: f64,
}

/// The stages, in the order in which tasks first come to them. The part before the first stage is
/// called `begin`.
pub(crate) fn stages(graph: &Graph) -> Vec<Stage<'_>> {
    let mut found: Vec<Stage<'_>> = Vec::new();
    for (node, of) in graph.nodes.iter().zip(owners(graph)) {
        let name = of.and_then(|of| graph.nodes[of].stage()).unwrap_or("begin");
        let index = found.iter().position(|stage| stage.name == name).unwrap_or_else(|| {
            found.push(Stage { name, count: 0, cpu_us: 0.0, queued_us: 0.0, waited_us: 0.0 });
            found.len() - 1
        });
        let stage = &mut found[index];
        let waited = node.mean_wait_us * node.count as f64;
        match node.what() {
            "begin" | "end" => {}
            what if what.starts_with("stage ") => {
                stage.count += node.count;
                stage.queued_us += waited;
            }
            _ => stage.waited_us += waited,
        }
        let place = graph.nodes.iter().position(|other| std::ptr::eq(other, node));
        let out = graph.edges.iter().filter(|edge| Some(edge.from) == place);
        stage.cpu_us += out.map(|edge| edge.mean_cpu_us * edge.count as f64).sum::<f64>();
    }
    found.retain(|stage| stage.count > 0 || stage.cpu_us > 0.0);
    found
}

/// The stage node of each node. This is the last stage node before it, on the way from the
/// beginning that most tasks took.
fn owners(graph: &Graph) -> Vec<Option<usize>> {
    let depths = graph.depths();
    let mut order: Vec<usize> = (0..graph.nodes.len()).collect();
    order.sort_by_key(|node| depths[*node].unwrap_or(usize::MAX));
    let mut owners: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for node in order {
        owners[node] = match graph.nodes[node].stage() {
            Some(_) => Some(node),
            None => {
                let before = graph
                    .edges
                    .iter()
                    .filter(|edge| edge.to == node && depths[edge.from] < depths[node]);
                before.max_by_key(|edge| edge.count).and_then(|edge| owners[edge.from])
            }
        };
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn a_stage_has_what_follows_its_boundary() {
        let graph = example();
        let stages = stages(&graph);
        let echo = stages.iter().find(|stage| stage.name == "echo").unwrap();
        assert_eq!(echo.count, 3);
        assert!((echo.cpu_us - (3.0 * 0.4 + 0.1 + 2.0 * 1.5 + 2.0 * 0.2)).abs() < 1e-9);
        assert!((echo.queued_us - 0.6).abs() < 1e-9);
        assert!((echo.waited_us - (120.0 + 14.0)).abs() < 1e-9);
    }
}
