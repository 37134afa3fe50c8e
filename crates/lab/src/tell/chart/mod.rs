//! Charts as SVG, made from numbers. The page's style colours them by class, so that charts follow
//! the page's theme.
//!
//! [`lines`] draws figures over load. [`forest`] draws estimates with their intervals, and
//! [`bands`] their course. [`bars`] draws what a sum is made of. A chart of a dozen coloured lines
//! cannot be read. So three lines are in colour, each with its own dash and marker, and the others
//! are grey. Names stand at the ends of lines.

pub mod bands;
pub mod bars;
pub mod forest;
pub mod lines;
mod scale;

pub use scale::Scale;

/// A chart of a sheet.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Figures over load, or over time.
    Lines(lines::Lines),
    /// Sums and their parts.
    Bars(bars::Bars),
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
            Self::Bands(bands) => bands.svg(),
            Self::Forest(forest) => forest.svg(),
        }
    }
}

/// The approximate width of a text with this many letters, in letters of a size.
fn width_of(text: &str, size: f64) -> f64 {
    0.56 * size * text.chars().count() as f64
}

/// Moves the sorted places `wanted` apart, until neighbours have a `gap`. Stays within `low` and
/// `high` if there is room.
fn apart(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    for at in 0..places.len() {
        let least = if at == 0 { low } else { places[at - 1] + gap };
        places[at] = places[at].max(least);
    }
    for at in (0..places.len()).rev() {
        let most = if at + 1 == places.len() { high } else { places[at + 1] - gap };
        places[at] = places[at].min(most);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_apart_and_stay_within() {
        let places = apart(&[10.0, 11.0, 12.0, 95.0, 99.0], 12.0, 5.0, 100.0);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 11.999), "{places:?}");
        assert!(places[0] >= 5.0 && places[4] <= 100.0, "{places:?}");
        // Names with room stay where they are.
        assert_eq!(apart(&[20.0, 60.0], 12.0, 0.0, 100.0), [20.0, 60.0]);
    }
}
