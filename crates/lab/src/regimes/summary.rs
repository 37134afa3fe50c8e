//! The results of a run of regimes: a row for each subject under each load, and the sure
//! conclusions.

use std::collections::BTreeMap;

use super::derive::{Plot, Sums};
use super::plan::Regime;
use super::record::{Cell, Heading, Measured, Outcome};
use crate::record::Disturbance;
use crate::statistics::median;

/// The figures of a subject under a load, medians of its repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Answers in a second.
    pub rate: f64,
    /// The least and the largest rate of the repeats.
    pub range: (f64, f64),
    /// Processor time of a request.
    pub cpu_us: Option<f64>,
    /// The T that half of the requests do not exceed.
    pub time_p50_us: f64,
    /// The T that 99 % of requests do not exceed.
    pub time_p99_us: f64,
    /// The most clients at a time.
    pub peak_clients: f64,
}

/// The best rate of a subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best<'r> {
    /// The load with this rate.
    pub regime: &'r str,
    /// Answers in a second, the median of the repeats.
    pub rate: f64,
}

/// A run.
#[derive(Debug)]
pub struct Summary<'r> {
    /// The heading of the run.
    pub heading: &'r Heading,
    /// The loads, from the lightest on.
    pub regimes: Vec<&'r Regime>,
    cells: BTreeMap<(&'r str, &'r str), Vec<&'r Cell>>,
}

impl<'r> Summary<'r> {
    /// Summarises the records.
    #[must_use]
    pub fn of(heading: &'r Heading, cells: &'r [Cell]) -> Self {
        let mut regimes: Vec<&Regime> = heading.regimes.iter().collect();
        regimes.sort_by(|one, other| one.rate().total_cmp(&other.rate()));
        let mut of: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for cell in cells {
            of.entry((cell.subject.as_str(), cell.regime.as_str())).or_default().push(cell);
        }
        Self { heading, regimes, cells: of }
    }

    /// The names of the subjects.
    pub fn subjects(&self) -> impl Iterator<Item = &'r str> {
        self.heading.subjects.iter().map(|(name, _)| name.as_str())
    }

    fn cells_of(&self, subject: &str, regime: &str) -> Vec<&'r Cell> {
        self.cells.get(&(subject, regime)).cloned().unwrap_or_default()
    }

    /// The measurements of a subject under a load.
    pub fn measured(&self, subject: &str, regime: &str) -> impl Iterator<Item = &'r Measured> {
        self.cells_of(subject, regime).into_iter().filter_map(|cell| match &cell.outcome {
            Outcome::Measured(measured) => Some(&**measured),
            Outcome::Missing { .. } => None,
        })
    }

    /// The points of a subject's first repeat under a load.
    #[must_use]
    pub fn points(&self, subject: &str, regime: &str) -> &'r [(f64, u64, f64)] {
        let cells = self.cells_of(subject, regime).into_iter().filter(|cell| cell.repeat == 0);
        let mut points = cells.filter_map(|cell| match &cell.outcome {
            Outcome::Measured(measured) => Some(&*measured.points),
            Outcome::Missing { .. } => None,
        });
        points.next().unwrap_or_default()
    }

    /// The figures. `None` if the subject was not measured.
    #[must_use]
    pub fn figures(&self, subject: &str, regime: &str) -> Option<Figures> {
        let all: Vec<&Measured> = self.measured(subject, regime).collect();
        let of = |figure: fn(&Measured) -> f64| {
            median(&all.iter().map(|one| figure(one)).collect::<Vec<f64>>())
        };
        let rates = || all.iter().map(|one| one.requests_per_second);
        let cpu: Vec<f64> = all.iter().filter_map(|one| one.server_cpu_us_per_request).collect();
        Some(Figures {
            rate: of(|one| one.requests_per_second)?,
            range: (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max)),
            cpu_us: median(&cpu),
            time_p50_us: of(|one| one.time_p50_us)?,
            time_p99_us: of(|one| one.time_p99_us)?,
            peak_clients: of(|one| one.peak_clients as f64)?,
        })
    }

    /// The reason why a subject was not measured under a load, if it was not.
    #[must_use]
    pub fn reason(&self, subject: &str, regime: &str) -> Option<&'r str> {
        self.cells_of(subject, regime).into_iter().find_map(|cell| match &cell.outcome {
            Outcome::Missing { reason } => Some(reason.as_str()),
            Outcome::Measured(_) => None,
        })
    }

    /// The sums of a subject under a load, or under all of them.
    #[must_use]
    pub fn sums(&self, subject: &str, regime: Option<&str>, plot: Plot) -> Sums {
        let mut sums = Sums::default();
        for one in self.regimes.iter().filter(|one| regime.is_none_or(|name| name == one.name)) {
            for measured in self.measured(subject, &one.name) {
                measured.sums.get(&plot).into_iter().for_each(|more| sums.add(more));
            }
        }
        sums
    }

    /// A subject's rates under a load, one for each measured repeat.
    pub(super) fn rates(&self, subject: &str, regime: &str) -> BTreeMap<usize, f64> {
        let rates =
            self.cells_of(subject, regime).into_iter().filter_map(|cell| match &cell.outcome {
                Outcome::Measured(measured) => Some((cell.repeat, measured.requests_per_second)),
                Outcome::Missing { .. } => None,
            });
        rates.filter(|(_, rate)| *rate > 0.0).collect()
    }

    /// The disturbance on the processors while cells ran. Empty in runs that did not watch.
    pub(super) fn disturbances(&self) -> impl Iterator<Item = &'r Disturbance> {
        self.cells.values().flatten().filter_map(|cell| match &cell.outcome {
            Outcome::Measured(measured) => measured.disturbance.as_ref(),
            Outcome::Missing { .. } => None,
        })
    }

    /// The best rate of a subject, and the load with this rate.
    #[must_use]
    pub fn best(&self, subject: &str) -> Option<Best<'r>> {
        let rates = self.regimes.iter().filter_map(|one| {
            Some(Best { regime: &one.name, rate: self.figures(subject, &one.name)?.rate })
        });
        rates.max_by(|one, other| one.rate.total_cmp(&other.rate))
    }

    /// The share of its best rate that a subject keeps under the heaviest load.
    #[must_use]
    pub fn kept(&self, subject: &str) -> Option<f64> {
        let heaviest = self.regimes.last()?;
        Some(self.figures(subject, &heaviest.name)?.rate / self.best(subject)?.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::super::derive::RecordedRequest;
    use super::super::plan::Plan;
    use super::*;
    use crate::tell::answers;
    use crate::tell::render::markdown::table_markdown;
    use crate::tell::render::text::{WIDE, text};
    use crate::tell::report::markdown;

    #[test]
    fn what_was_measured_is_in_the_text_and_the_table() {
        let plan = "[regimes]\nsubjects = ['steady', 'falling', 'absent']\nrepeats = 3\n\
                    [[regime]]\nwait = '100us'\n[[regime]]\nwait = '1us'\n";
        let heading = Heading::of(&Plan::read(plan).unwrap());
        let request = RecordedRequest::read("0,1000,0,5,1,1").unwrap();
        let cell = |subject: &str, regime: &str, repeat, outcome| Cell {
            subject: subject.to_owned(),
            regime: regime.to_owned(),
            repeat,
            outcome,
        };
        let reason = "no library".to_owned();
        let mut cells = vec![cell("absent", "1us", 0, Outcome::Missing { reason })];
        for (subject, regime, rate) in [
            ("steady", "100us", 9_000.0),
            ("steady", "1us", 50_000.0),
            ("falling", "100us", 10_000.0),
            ("falling", "1us", 5_000.0),
        ] {
            for (repeat, by) in [0.99, 1.0, 1.01].into_iter().enumerate() {
                let measured = Measured::of(&[request], by * rate, Some(2.0));
                cells.push(cell(subject, regime, repeat, Outcome::Measured(Box::new(measured))));
            }
        }
        let summary = Summary::of(&heading, &cells);
        assert_eq!(summary.kept("falling"), Some(0.5));
        let answer = text(&answers::regimes::sheet(&summary), WIDE);
        assert!(answer.contains("steady answers most: 50,000 requests/s, 10.00 ["), "{answer}");
        assert!(answer.contains("– absent: no library"), "{answer}");
        let table = answers::regimes::tabled(&summary, markdown::Table::Rate).unwrap();
        let table = table_markdown(&table);
        assert!(table.contains("| falling | 10,000 | 5,000 | 50 % |"), "{table}");
        assert!(table.contains("| absent | – | – | – |"), "{table}");
        assert!(answers::regimes::tabled(&summary, markdown::Table::Slope).is_none());
        assert!(!answer.contains("absent (") && !answer.contains(" 0\n"), "{answer}");
    }
}
