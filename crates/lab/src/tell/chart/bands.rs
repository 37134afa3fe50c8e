//! Estimates with their intervals, as bands that narrow over the blocks of a trial.

use std::fmt::Write;

use crate::format::escaped;
use crate::statistics::Interval;

/// The size of the chart, and the range of its axis.
const SIZE: (f64, f64) = (640.0, 220.0);
const REACH: (f64, f64) = (-0.5, 1.5);

/// A chart of bands, over a dashed line at zero.
#[derive(Clone, Debug)]
pub struct Bands {
    /// A description for readers that hear the page.
    pub about: String,
    /// The number of blocks.
    pub blocks: usize,
    /// The bands, each in its colour.
    pub bands: Vec<Band>,
}

/// The course of an estimate.
#[derive(Clone, Debug)]
pub struct Band {
    /// The colour.
    pub colour: &'static str,
    /// Blocks from 0, each with the estimate and its interval.
    pub points: Vec<(usize, f64, Interval)>,
}

impl Bands {
    /// The drawing.
    pub fn svg(&self) -> String {
        let step = SIZE.0 / self.blocks.max(2) as f64;
        let across = |block: usize| (block as f64 + 0.5) * step;
        let (width, tall) = SIZE;
        let mut svg = format!(
            "<svg class=\"bands\" viewBox=\"0 0 {width} {tall}\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.about)
        );
        for Band { colour, points: of } in &self.bands {
            let highs = of.iter().map(|(block, _, ends)| (across(*block), ends.high));
            let lows = of.iter().map(|(block, _, ends)| (across(*block), ends.low));
            let area = points(highs.chain(lows.rev()));
            let line = points(of.iter().map(|(block, value, _)| (across(*block), *value)));
            // Writing to a string cannot fail.
            let _ = write!(
                svg,
                "<polygon points=\"{area}\" fill=\"{colour}\"></polygon>\
                 <polyline points=\"{line}\" stroke=\"{colour}\"></polyline>"
            );
        }
        let zero = height(0.0);
        svg + &format!(
            "<line class=\"zero\" x1=\"0\" x2=\"{width}\" y1=\"{zero}\" y2=\"{zero}\"></line></svg>"
        )
    }
}

fn points(of: impl Iterator<Item = (f64, f64)>) -> String {
    of.map(|(x, value)| format!("{x:.1},{:.1} ", height(value))).collect()
}

/// The height of a value in the chart.
fn height(value: f64) -> f64 {
    let (low, high) = REACH;
    SIZE.1 * (high - value.clamp(low, high)) / (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_keeps_within_its_size() {
        assert_eq!((height(9.0), height(-9.0)), (0.0, SIZE.1));
        let ends = Interval { low: -7.0, high: 1.5 };
        let band = Band { colour: "#000", points: vec![(0, 0.0, ends)] };
        let svg = Bands { about: String::new(), blocks: 1, bands: vec![band] }.svg();
        assert!(svg.contains("points=\"160.0,0.0 160.0,220.0 \""), "{svg}");
    }
}
