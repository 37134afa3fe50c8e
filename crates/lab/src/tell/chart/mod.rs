//! Charts as SVG, made from numbers. The page's style colours them by class, so that charts follow
//! the page's theme.
//!
//! [`lines`] draws figures over load. [`forest`] draws estimates with their intervals, and
//! [`bands`] their course. [`bars`] draws what a sum is made of, and [`columns`]
//! counts over time. [`plots`] are drawn by the page. A chart of a dozen coloured lines
//! cannot be read. So three lines are in colour, each with its own dash and marker, and the others
//! are grey. Names stand at the ends of lines. [`labels`] gives each text its place.

pub mod bands;
pub mod bars;
pub mod columns;
pub mod forest;
pub mod labels;
pub mod lines;
pub mod plots;
mod scale;

pub use scale::Scale;

/// What a logarithmic axis says of itself.
const LOGARITHMIC: &str = "log scale";

/// A chart of a sheet.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Figures over load, or over time.
    Lines(lines::Lines),
    /// Sums and their parts.
    Bars(bars::Bars),
    /// Counts over time.
    Columns(columns::Columns),
    /// Intervals that narrow.
    Bands(bands::Bands),
    /// Estimates with their intervals.
    Forest(forest::Forest),
}

impl Chart {
    /// The drawing.
    pub fn svg(&self) -> String {
        match self {
            Self::Lines(lines) => lines.svg(),
            Self::Bars(bars) => bars.svg(),
            Self::Columns(columns) => columns.svg(),
            Self::Bands(bands) => bands.svg(),
            Self::Forest(forest) => forest.svg(),
        }
    }
}
