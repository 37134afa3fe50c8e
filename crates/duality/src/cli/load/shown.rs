//! What the live page of a load shows, as a function of what is known.

use duality_lab::live::{Figure, Rates, State, Table};
use duality_load::{Report, WarningKind, duration_text, histogram_bars};
use hdrhistogram::Histogram;

/// What is known of a load that runs.
pub(super) struct Now<'a> {
    pub(super) target: &'a str,
    /// The last seconds in a line.
    pub(super) line: &'a str,
    pub(super) rate: f64,
    pub(super) failed: u64,
    /// Nanoseconds, of the last seconds.
    pub(super) latencies: &'a Histogram<u64>,
    pub(super) rates: &'a Rates,
}

/// The page of a load that runs.
pub(super) fn state(now: &Now<'_>) -> State {
    let mut figures = vec![Figure::new("requests/s", format!("{:.0}", now.rate))];
    if !now.latencies.is_empty() {
        let percentile = |percent| {
            let nanoseconds = now.latencies.value_at_percentile(percent);
            duration_text(nanoseconds as f64 / 1e3)
        };
        let all = [("50 %", 50.0), ("90 %", 90.0), ("99 %", 99.0), ("99.9 %", 99.9)];
        figures.extend(all.map(|(name, percent)| Figure::new(name, percentile(percent))));
    }
    figures.push(Figure::new("failed", now.failed.to_string()));
    State {
        title: format!("load {}", now.target),
        now: now.line.to_owned(),
        figures,
        spark: now.rates.spark(),
        tables: histogram("The last seconds, by latency", now.latencies).into_iter().collect(),
        ..State::default()
    }
}

/// The page of a load that has ended.
pub(super) fn ended(report: &Report, rates: &Rates) -> State {
    let latency = &report.latency_us;
    let duration = |name: &str, value| Figure::new(name, duration_text(value));
    let failed: u64 = report.errors.values().sum();
    let figures = vec![
        Figure::new("requests/s", format!("{:.0}", report.requests_per_second)),
        duration("50 %", latency.p50),
        duration("90 %", latency.p90),
        duration("99 %", latency.p99),
        duration("99.9 %", latency.p99_9),
        Figure::new("failed", failed.to_string()),
    ];
    let latencies = report.latencies().ok();
    let table = latencies.and_then(|latencies| histogram("All replies, by latency", &latencies));
    let mut early = report.warnings.iter().filter(|one| one.kind == WarningKind::Interrupted);
    let whole = "The figures are those of the whole window.";
    State {
        title: format!("load {}", report.target),
        now: early.next().map_or(whole, |warning| &warning.text).to_owned(),
        figures,
        spark: rates.spark(),
        tables: table.into_iter().collect(),
        ..State::default()
    }
}

/// A histogram as a table. `None` without latencies.
fn histogram(title: &str, latencies: &Histogram<u64>) -> Option<Table> {
    let bars = histogram_bars(latencies).into_iter();
    let rows: Vec<(String, u64)> =
        bars.map(|bar| (duration_text(bar.up_to_us), bar.count)).collect();
    Table::histogram(title, "replies", &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_figures_and_a_histogram_once_it_has_latencies() {
        let mut latencies = Histogram::new(3).unwrap();
        let mut rates = Rates::default();
        [5.0, 10.0].into_iter().for_each(|rate| rates.push(rate));
        let state_of = |latencies: &Histogram<u64>| {
            state(&Now {
                target: "echo://a",
                line: "5 requests/s",
                rate: 5.0,
                failed: 1,
                latencies,
                rates: &rates,
            })
        };
        let empty = state_of(&latencies);
        assert_eq!((empty.figures.len(), empty.tables.len()), (2, 0));
        [1_000_u64, 2_000, 2_000]
            .into_iter()
            .for_each(|latency| latencies.record(latency).unwrap());
        let full = state_of(&latencies);
        assert_eq!(full.figures.len(), 6);
        let bars = full.tables[0].rows.iter().map(|row| row.cells[0].bar.unwrap().to);
        let bars: Vec<f64> = bars.filter(|share| *share > 0.0).collect();
        assert_eq!(bars, [0.5, 1.0]);
        assert_eq!(full.spark.unwrap().points, [0.5, 1.0]);
    }
}
