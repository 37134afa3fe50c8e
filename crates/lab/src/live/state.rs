//! What a live page shows: plain data, which a template and a script draw alike.

use std::collections::VecDeque;

use serde::Serialize;

/// The values of a figure that are shown over time, at most.
const MOST_VALUES: usize = 240;

/// The content of a live page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// What is measured.
    pub title: String,
    /// What happens now.
    pub now: String,
    /// Whether this is the last state.
    pub over: bool,
    /// The report's path, at the end.
    pub report: Option<String>,
    /// The most important figures.
    pub figures: Vec<Figure>,
    /// A figure over time.
    pub spark: Option<Spark>,
    /// Everything else.
    pub tables: Vec<Table>,
}

/// A figure with its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its value with its unit.
    pub value: String,
}

/// A figure over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spark {
    /// What is shown, and the largest value.
    pub title: String,
    /// The values, the oldest first, as shares of the largest.
    pub points: Vec<f64>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// What is in it.
    pub title: String,
    /// What its cells mean.
    pub caption: String,
    /// The names of the columns, that of the rows' names first.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its cells.
    pub cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// How it looks: a class of the page's style.
    pub tone: &'static str,
    /// A bar beneath the text.
    pub bar: Option<Bar>,
}

/// A bar, in shares of the width of its cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Its begin.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// A mark on it.
    pub mark: Option<f64>,
}

impl State {
    /// The state as JSON, in one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("it is plain data")
    }
}

impl Figure {
    /// A figure.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl Cell {
    /// A cell of one text.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl Bar {
    /// A bar from the left edge, for a share of the width.
    pub fn of(share: f64) -> Self {
        Self { from: 0.0, to: share.clamp(0.0, 1.0), mark: None }
    }
}

/// Requests a second over time, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Rates(VecDeque<f64>);

impl Rates {
    /// Adds the rate of now.
    pub fn push(&mut self, rate: f64) {
        if self.0.len() == MOST_VALUES {
            self.0.pop_front();
        }
        self.0.push_back(rate);
    }

    /// The rates as a figure over time. `None` if there are fewer than two.
    pub fn spark(&self) -> Option<Spark> {
        let most = self.0.iter().copied().fold(0.0, f64::max);
        (self.0.len() > 1 && most > 0.0).then(|| Spark {
            title: format!("requests/s, at most {most:.0}"),
            points: self.0.iter().map(|value| value / most).collect(),
        })
    }
}

impl Table {
    /// A histogram: the longest time of each row in words, and the number of what took so long.
    /// `None` if nothing did.
    pub fn histogram(title: &str, what: &str, rows: &[(String, u64)]) -> Option<Self> {
        let most = rows.iter().map(|(_, count)| *count).max().filter(|most| *most > 0)?;
        let row = |(up_to, count): &(String, u64)| Row {
            name: up_to.clone(),
            cells: vec![Cell {
                text: count.to_string(),
                tone: "wide",
                bar: Some(Bar::of(*count as f64 / most as f64)),
            }],
        };
        Some(Self {
            title: title.to_owned(),
            columns: ["up to", what].map(str::to_owned).to_vec(),
            rows: rows.iter().map(row).collect(),
            ..Self::default()
        })
    }
}
