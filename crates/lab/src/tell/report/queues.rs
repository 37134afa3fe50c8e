//! The charts of queues and pools over time, for the architectures that have them.

use crate::format::grouped;
use crate::judge::summary::Summary;
use crate::record::{Cell, Outcome, QueueSample, QueueState};
use crate::tell::chart::Chart;
use crate::tell::chart::lines::{Lines, Series};

use crate::tell::sheet::Figure;

/// The number of queues in colour.
const IN_COLOUR: usize = 3;

/// Two charts for each subject that has queues: the lengths of the queues, and the numbers of
/// threads that took from them. The charts are of the subject's first window at the largest load.
pub(super) fn figures(summary: &Summary, cells: &[Cell]) -> Vec<Figure> {
    let mut chosen: Vec<(&Cell, &[QueueSample])> = Vec::new();
    for cell in cells {
        let Outcome::Measured(measured) = &cell.outcome else { continue };
        if measured.queues.is_empty() {
            continue;
        }
        match chosen.iter_mut().find(|(other, _)| other.subject == cell.subject) {
            None => chosen.push((cell, &measured.queues)),
            Some(known) if known.0.concurrency < cell.concurrency => {
                *known = (cell, &measured.queues);
            }
            Some(_) => {}
        }
    }
    let both = chosen.into_iter().flat_map(|(cell, samples)| {
        let at = summary.at(cell.concurrency);
        [
            figure(cell, samples, "queues", &format!("how many blocks wait, at {at}"), |queue| {
                queue.length
            }),
            figure(
                cell,
                samples,
                "pools",
                &format!("how many threads take them, at {at}"),
                |queue| queue.threads,
            ),
        ]
    });
    both.collect()
}

fn figure(
    cell: &Cell,
    samples: &[QueueSample],
    what: &str,
    caption: &str,
    value: fn(&QueueState) -> u64,
) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for sample in samples {
        for queue in &sample.queues {
            let sentence =
                format!("{}: {} after {:.1} s", queue.name, value(queue), sample.seconds);
            let point = (sample.seconds, value(queue) as f64, sentence);
            match series.iter_mut().find(|series| series.name == queue.name) {
                Some(series) => series.points.push(point),
                None => series.push(Series {
                    name: queue.name.clone(),
                    rank: None,
                    points: vec![point],
                    doubtful: Vec::new(),
                }),
            }
        }
    }
    // The longest queues are in colour.
    let most = |series: &Series| series.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|one, other| most(&series[*other]).total_cmp(&most(&series[*one])));
    for (rank, index) in order.into_iter().take(IN_COLOUR).enumerate() {
        series[index].rank = Some(rank);
    }
    let title =
        format!("{} of {}", if what == "queues" { "Queues" } else { "Pools" }, cell.subject);
    let mut csv = String::from("queue,seconds,value\n");
    for one in &series {
        for (seconds, value, _) in &one.points {
            csv += &format!("\"{}\",{seconds:.3},{value}\n", one.name.replace('"', "\"\""));
        }
    }
    let lines = Lines {
        about: title.clone(),
        below: "seconds since the load began".to_owned(),
        is_logarithmic: false,
        is_straight_across: true,
        marked: Vec::new(),
        across: |seconds| format!("{seconds:.1}"),
        up: grouped,
        series,
        has_diagonal: false,
        bands: Vec::new(),
    };
    let id = format!("{what}-{}", cell.subject.replace(' ', "-"));
    let caption = caption.to_owned();
    Figure { id, caption, csv, ..Figure::new(title, Chart::Lines(lines), Vec::new()) }
}
