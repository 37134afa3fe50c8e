//! What the live page of a comparison shows: the map so far, as a function of what is known.

use std::collections::BTreeMap;

use crate::format::how_many;
use crate::judge::race::{Distance, Lane};
use crate::live::{Bar, Cell, Figure, Row, State, Table};
use crate::measure::experiment::Experiment;

/// The largest excess that a bar shows: eleven times the best.
const WIDEST: f64 = 10.0;

/// What is known of a subject at a number of connections.
pub(super) type Place = (String, usize);

/// What is known of a comparison.
pub(super) struct SoFar<'a> {
    pub(super) experiment: &'a Experiment,
    /// The races, by number of connections.
    pub(super) lanes: &'a BTreeMap<usize, Lane>,
    /// Cells without figures: `n/a` or `failed`.
    pub(super) missing: &'a BTreeMap<Place, &'static str>,
    /// The figure of a cell that no race has looked at.
    pub(super) point: &'a dyn Fn(&str, usize) -> Option<String>,
    pub(super) ended: usize,
    pub(super) blocks: usize,
    /// The seconds that are left, as planned.
    pub(super) left: f64,
    /// What happens now.
    pub(super) now: &'a str,
}

/// The page of a comparison.
pub(super) fn state(so_far: &SoFar<'_>) -> State {
    let design = &so_far.experiment.design;
    let counted = design.counted();
    let row = |name: &str| Row {
        name: name.to_owned(),
        cells: design.concurrency.iter().map(|&load| cell(so_far, name, load)).collect(),
    };
    let loads = design.concurrency.iter().map(|&load| how_many(load));
    let map = Table {
        title: "The map so far".to_owned(),
        caption: "Percent worse than the best, with an interval. An interval holds at all looks \
                  together, and shrinks from look to look. What is out is worse for sure. Without \
                  an interval: chance may have made the difference. Bars go from 0 to 1,000 %, on \
                  a logarithmic scale. The verdict comes at the end."
            .to_owned(),
        columns: [counted.noun().to_owned()].into_iter().chain(loads).collect(),
        rows: design.measured().map(row).collect(),
    };
    State {
        title: format!(
            "{}: {} at {}",
            design.service,
            design.compared(),
            counted.several(&design.concurrency)
        ),
        now: so_far.now.to_owned(),
        figures: vec![
            Figure::new("left, as planned", format!("{:.0} s", so_far.left)),
            Figure::new("cells", format!("{} of {}", so_far.ended, so_far.experiment.cells())),
            Figure::new("blocks", so_far.blocks.to_string()),
        ],
        tables: vec![map],
        ..State::default()
    }
}

fn cell(so_far: &SoFar<'_>, name: &str, load: usize) -> Cell {
    if let Some(what) = so_far.missing.get(&(name.to_owned(), load)) {
        return Cell { tone: "rests", ..Cell::plain(*what) };
    }
    let lane = so_far.lanes.get(&load);
    if let Some(out) = lane.and_then(|lane| lane.out(name)) {
        let text = format!("+{:.0} out, +{:.0} at least", 100.0 * out.behind, 100.0 * out.low);
        let bar = Bar { from: share(out.low), to: 1.0, mark: Some(share(out.behind)) };
        return Cell { text, tone: "out", bar: Some(bar) };
    }
    let standing = lane.and_then(|lane| {
        lane.standings.iter().find(|(own, _)| own == name).map(|(_, standing)| standing)
    });
    match standing {
        Some(standing) => contender(standing),
        None => Cell::plain((so_far.point)(name, load).unwrap_or_else(|| "·".to_owned())),
    }
}

fn contender(standing: &Distance) -> Cell {
    let Distance { behind, low, high } = *standing;
    if (behind, low, high) == (0.0, 0.0, 0.0) {
        return Cell { tone: "best", ..Cell::plain("best") };
    }
    let percent = |share: f64| format!("{:.0}", 100.0 * share);
    let text = format!("+{} [{} to {}]", percent(behind), percent(low), percent(high));
    let bar = Bar { from: share(low), to: share(high), mark: Some(share(behind)) };
    Cell { text, tone: "", bar: Some(bar) }
}

/// Where an excess is in a bar. The scale is logarithmic.
fn share(excess: f64) -> f64 {
    (excess.clamp(0.0, WIDEST).ln_1p() / WIDEST.ln_1p()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::race::Out;
    use crate::measure::experiment::tests::experiment;

    fn lane(standings: &[(&str, f64, f64)], out: &[(&str, f64)]) -> Lane {
        let standing = |(name, behind, radius): &(&str, f64, f64)| {
            let [low, high] = [behind - radius, behind + radius];
            ((*name).to_owned(), Distance { behind: *behind, low, high })
        };
        let left = |(name, behind): &(&str, f64)| {
            let out = Out { blocks: 3, sessions: 1, behind: *behind, low: behind / 2.0 };
            ((*name).to_owned(), out)
        };
        Lane {
            concurrency: 10,
            goes_on: Vec::new(),
            out: out.iter().map(left).collect(),
            standings: standings.iter().map(standing).collect(),
            blocks: 3,
            sessions: 1,
            last_session: Some(0),
            critical: None,
            is_told: false,
            wanted: 1.0,
        }
    }

    /// The texts of the row of `name`, and the width of its bar at 10 connections.
    fn shown(lane: Option<Lane>, name: &str) -> (Vec<String>, f64) {
        let experiment = experiment();
        let so_far = SoFar {
            experiment: &experiment,
            lanes: &lane.into_iter().map(|lane| (10, lane)).collect(),
            missing: &[(("threads".to_owned(), 100), "failed")].into(),
            point: &|name, load| (name == "epoll" && load == 1).then(|| "5000/s".to_owned()),
            ended: 1,
            blocks: 3,
            left: 7.0,
            now: "block 3",
        };
        let state = state(&so_far);
        let row = state.tables[0].rows.iter().find(|row| row.name == name).unwrap();
        let width = row.cells[1].bar.map_or(0.0, |bar| bar.to - bar.from);
        (row.cells.iter().map(|cell| cell.text.clone()).collect(), width)
    }

    #[test]
    fn the_map_fills_with_intervals_that_shrink() {
        let texts = |lane, name| shown(lane, name).0;
        assert_eq!(texts(None, "epoll"), ["5000/s", "·", "·"]);
        assert_eq!(texts(None, "threads"), ["·", "·", "failed"]);
        let wide = lane(&[("epoll", 0.0, 0.0), ("threads", 0.5, 0.4)], &[]);
        let narrow = lane(&[("epoll", 0.0, 0.0), ("threads", 0.5, 0.1)], &[]);
        assert_eq!(texts(Some(wide.clone()), "epoll")[1], "best");
        assert_eq!(texts(Some(wide.clone()), "threads")[1], "+50 [10 to 90]");
        let [wide, narrow] = [wide, narrow].map(|lane| shown(Some(lane), "threads").1);
        assert!(narrow > 0.0 && narrow < wide, "{narrow} {wide}");
        let out = lane(&[("epoll", 0.0, 0.0)], &[("threads", 2.0)]);
        assert_eq!(texts(Some(out), "threads")[1], "+200 out, +100 at least");
    }
}
