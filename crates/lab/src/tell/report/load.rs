//! The user's own load on the page: the times of its requests, and the number of users that there
//! is room for.

use std::fmt::Write;

use serde::Serialize;

use crate::record::Recording;
use crate::tell::replay::Headroom;

/// The size of the chart.
const WIDTH: usize = 480;
const HEIGHT: usize = 80;

/// The requests over time, as an SVG of bars.
pub(super) fn arrivals(recording: &Recording) -> String {
    let most = recording.arrivals.iter().copied().max().unwrap_or(0).max(1);
    let bar = WIDTH / recording.arrivals.len().max(1);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Requests over the length of the recording\">"
    );
    for (place, count) in recording.arrivals.iter().enumerate() {
        let height = (HEIGHT as u64 * count).div_ceil(most);
        let top = HEIGHT as u64 - height;
        let _ = write!(
            svg,
            "<rect x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{height}\" \
             fill=\"currentColor\"><title>{count} requests</title></rect>",
            place * bar,
            bar.saturating_sub(1).max(1),
        );
    }
    svg + "</svg>"
}

/// A line of the table of headroom.
#[derive(Serialize)]
pub(super) struct Line {
    subject: String,
    share: String,
    told: String,
}

/// The lines of the table of headroom. Empty without a recording.
pub(super) fn headroom(headroom: &[Headroom]) -> Vec<Line> {
    let line = |one: &Headroom| Line {
        subject: one.subject.clone(),
        share: match one.users_of_a_processor {
            0.0 => "–".to_owned(),
            _ => format!("{:.2e} %", 100.0 * one.share_as_recorded),
        },
        told: one.told(),
    };
    headroom.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_part_is_as_high_as_the_chart() {
        let recording: Recording = serde_json::from_value(serde_json::json!({
            "trace": "a", "checksum": "", "speed": 1.0, "source": "log", "seconds": 10.0, "requests": 6,
            "connections": 6, "open": 1.0, "arrivals": [1, 0, 5],
            "carried": {"p50": 1.0, "p90": 1.0, "p99": 1.0, "max": 1.0},
            "think_seconds": {"p50": 0.0, "p90": 0.0, "p99": 0.0, "max": 0.0},
            "reply_bytes": {"p50": 1.0, "p90": 1.0, "p99": 1.0, "max": 1.0}
        }))
        .unwrap();
        let svg = arrivals(&recording);
        assert!(svg.contains("height=\"80\"") && svg.contains("<title>5 requests"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 3);
    }
}
