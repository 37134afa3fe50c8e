//! Curves with their points, in plots of which a reader chooses the load, the subjects and the
//! layers. A script of the page draws them (`render/plots.js`).

use serde::{Serialize, Serializer};

/// The plots.
#[derive(Clone, Debug, Serialize)]
pub struct Plots {
    /// What a reader chooses one of. The address of the page has it in lower case.
    pub choice: &'static str,
    /// The quantities of a point.
    pub quantities: Vec<Quantity>,
    /// The plots.
    pub plots: Vec<Plot>,
    /// The names of the subjects, each with whether it is shown at first.
    pub subjects: Vec<(String, bool)>,
    /// What is shown before a choice is made: the curves of each subject.
    pub all: Vec<Curves>,
    /// The choices.
    pub choices: Vec<Choice>,
}

/// A quantity of a point.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantity {
    /// The name.
    pub name: &'static str,
    /// Whether values are seconds.
    pub is_time: bool,
}

/// A plot of one quantity against another.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The place of the quantity on the lower axis.
    pub across: usize,
    /// The place of the quantity on the upright axis.
    pub up: usize,
}

/// A choice.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The name.
    pub name: String,
    /// The curves of each subject.
    pub curves: Vec<Curves>,
    /// The points of each subject. A point has a value for each quantity.
    pub points: Vec<Vec<Vec<Rounded>>>,
}

/// A curve for each plot. A place of a curve has x, the mean there, and the moving average.
pub type Curves = Vec<Vec<[Rounded; 3]>>;

/// A number with five digits, which is more than a plot shows.
#[derive(Clone, Copy, Debug)]
pub struct Rounded(pub f64);

impl Serialize for Rounded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded = format!("{:.4e}", self.0).parse().unwrap_or(self.0);
        serializer.serialize_f64(rounded)
    }
}
