//! A graph as a drawing: a row for each step from the beginning, and edges as curves. Edges that
//! lead back go round on the right.

use std::fmt::Write;

use super::Graph;
use crate::format::duration;
use crate::format::escaped;

const NODE: (f64, f64) = (250.0, 52.0);
const GAP: (f64, f64) = (150.0, 80.0);
const MARGIN: f64 = 24.0;
/// The width of the edge with the most processor time.
const WIDEST: f64 = 9.0;

pub(super) fn draw(graph: &Graph) -> String {
    let places = layout(graph);
    let right = places.iter().map(|(x, _)| x + NODE.0).fold(0.0, f64::max);
    let bottom = places.iter().map(|(_, y)| y + NODE.1).fold(0.0, f64::max);
    let back = graph.edges.iter().filter(|edge| places[edge.to].1 < places[edge.from].1).count();
    let (width, height) = (right + 200.0 + 26.0 * back as f64, bottom + MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">\n\
         <title>{} under {}</title>\n<style>\n\
         svg {{ font: 12px system-ui, sans-serif; background: #fff; }} text {{ fill: #1c2733; }} .soft {{ fill: #566370; }}\n\
         rect {{ fill: #f6f8fa; stroke: #aab4be; }} .stage {{ fill: #e3eefb; stroke: #0063c9; }}\n\
         path {{ fill: none; stroke: #b8480a; stroke-opacity: .55; }} .label {{ font-size: 11px; paint-order: stroke; stroke: #fff; stroke-width: 3px; }}\n\
         </style>\n<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" style=\"fill:#b8480a;stroke:none\"/></marker></defs>\n",
        escaped(&graph.service),
        escaped(&graph.architecture),
    );
    edges(graph, &places, right, &mut svg);
    for (node, (x, y)) in graph.nodes.iter().zip(&places) {
        let class = if node.stage().is_some() { " class=\"stage\"" } else { "" };
        let label = format!("{}×, wait {}", node.count, duration(node.mean_wait_us));
        let middle = x + NODE.0 / 2.0;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{}\" height=\"{}\" rx=\"6\"{class}/>\
             <text x=\"{middle:.0}\" y=\"{:.0}\" text-anchor=\"middle\" font-weight=\"600\">{}</text>\
             <text x=\"{middle:.0}\" y=\"{:.0}\" text-anchor=\"middle\" class=\"soft\">{}</text>\
             <text x=\"{middle:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{label}</text>",
            NODE.0,
            NODE.1,
            y + 16.0,
            escaped(node.what()),
            y + 31.0,
            escaped(node.place()),
            y + 46.0,
        );
    }
    svg + "</svg>\n"
}

fn edges(graph: &Graph, places: &[(f64, f64)], right: f64, svg: &mut String) {
    let most =
        graph.edges.iter().map(|edge| edge.mean_cpu_us * edge.count as f64).fold(0.0, f64::max);
    let mut lane = right;
    for edge in &graph.edges {
        let share = if most > 0.0 { edge.mean_cpu_us * edge.count as f64 / most } else { 0.0 };
        let stroke = 1.0 + (WIDEST - 1.0) * share;
        let ((from_x, from_y), (to_x, to_y)) = (places[edge.from], places[edge.to]);
        let label = format!(
            "{}×, {}, CPU {}",
            edge.count,
            duration(edge.mean_us),
            duration(edge.mean_cpu_us)
        );
        let (path, label_x, label_y) = if to_y > from_y {
            let (x1, y1) = (from_x + NODE.0 / 2.0, from_y + NODE.1);
            let (x2, y2) = (to_x + NODE.0 / 2.0, to_y);
            let bend = (y2 - y1) / 2.0;
            let path = format!(
                "M{x1:.0} {y1:.0}C{x1:.0} {:.0} {x2:.0} {:.0} {x2:.0} {y2:.0}",
                y1 + bend,
                y2 - bend
            );
            // If several edges leave a node, the drawing moves their labels apart.
            (path, x1 + (x2 - x1) * 0.3, y1 + (y2 - y1) * 0.36)
        } else if to_y == from_y && to_x != from_x {
            let (x1, x2) =
                if to_x > from_x { (from_x + NODE.0, to_x) } else { (from_x, to_x + NODE.0) };
            let y = from_y + NODE.1 / 2.0;
            (format!("M{x1:.0} {y:.0}L{x2:.0} {y:.0}"), (x1 + x2) / 2.0, y - 8.0)
        } else {
            lane += 26.0;
            let (x1, y1) = (from_x + NODE.0, from_y + NODE.1 * 0.7);
            let (x2, y2) = (to_x + NODE.0, to_y + NODE.1 * 0.3);
            let path =
                format!("M{x1:.0} {y1:.0}C{lane:.0} {y1:.0} {lane:.0} {y2:.0} {x2:.0} {y2:.0}");
            (path, (lane + x1.max(x2)) / 2.0 + 20.0, (y1 + y2) / 2.0)
        };
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" stroke-width=\"{stroke:.1}\" marker-end=\"url(#tip)\"/>\
             <text class=\"label\" x=\"{label_x:.0}\" y=\"{label_y:.0}\" text-anchor=\"middle\">{label}</text>"
        );
    }
}

/// The position of each node. The row is the distance from the beginning. Within a row, a node
/// stands below the nodes that have edges to it.
fn layout(graph: &Graph) -> Vec<(f64, f64)> {
    let depths = graph.depths();
    let deepest = depths.iter().flatten().max().copied().unwrap_or(0);
    let row_of = |node: usize| depths[node].unwrap_or(deepest + 1);
    let mut columns = vec![0.0; graph.nodes.len()];
    for row in 0..=deepest + 1 {
        let wanted = |node: usize| {
            let before =
                graph.edges.iter().filter(|edge| edge.to == node && row_of(edge.from) < row);
            let (sum, count) = before
                .fold((0.0, 0.0), |(sum, count), edge| (sum + columns[edge.from], count + 1.0));
            if count > 0.0 { sum / count } else { 0.0 }
        };
        let mut nodes: Vec<(f64, usize)> = (0..graph.nodes.len())
            .filter(|node| row_of(*node) == row)
            .map(|node| (wanted(node), node))
            .collect();
        nodes.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        for (column, (_, node)) in nodes.into_iter().enumerate() {
            columns[node] = column as f64;
        }
    }
    (0..graph.nodes.len())
        .map(|node| {
            (
                MARGIN + columns[node] * (NODE.0 + GAP.0),
                MARGIN + row_of(node) as f64 * (NODE.1 + GAP.1),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn no_two_nodes_share_a_place_and_all_is_drawn() {
        let graph = example();
        let mut places = layout(&graph);
        assert_eq!(places[0], (MARGIN, MARGIN), "it begins at the top");
        places.sort_by(|one, other| one.partial_cmp(other).unwrap());
        places.dedup();
        assert_eq!(places.len(), graph.nodes.len());
        let svg = graph.svg();
        assert_eq!(svg.matches("<rect ").count(), graph.nodes.len());
        assert_eq!(svg.matches("marker-end").count(), graph.edges.len());
    }
}
