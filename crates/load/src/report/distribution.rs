//! A histogram for people: few rows, with round edges.
//!
//! The rows cover 99.8 % of the latencies evenly. The first row also has shorter ones. Longer ones
//! have a row of their own, so that one slow reply does not squeeze all others into one row.

use hdrhistogram::Histogram;

use super::duration;

/// The most rows, without the one of the longest latencies.
const MOST_ROWS: usize = 14;

/// Round edges within a power of ten, the finest series first.
const SERIES: [&[f64]; 4] = [
    &[
        1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8, 3.2, 3.6, 4.0, 4.5, 5.0, 5.6, 6.3, 7.0,
        8.0, 9.0,
    ],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 2.0, 5.0],
    &[1.0],
];

/// The powers of ten of nanoseconds that a latency may have: up to an hour.
const POWERS: std::ops::Range<i32> = 0..13;

/// The most blocks of a row.
const BLOCKS: usize = 32;

/// A row of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// The longest latency of the row, in microseconds. The row begins above the row before.
    pub up_to_us: f64,
    /// The number of latencies.
    pub count: u64,
}

/// The rows of a histogram of nanoseconds. None if it is empty.
pub fn bars(histogram: &Histogram<u64>) -> Vec<Bar> {
    if histogram.is_empty() {
        return Vec::new();
    }
    // A value stands for a small range. The least value of it may be a round edge.
    let least_of = |value| histogram.lowest_equivalent(value) as f64;
    let least = least_of(histogram.value_at_quantile(0.001));
    let most = least_of(histogram.value_at_quantile(0.999));
    let longest = least_of(histogram.max());
    let within = |series: &&[f64]| edges(series, least, most);
    let all = SERIES.iter().map(within);
    let edges = all.reduce(|finer, coarser| if finer.len() <= MOST_ROWS { finer } else { coarser });
    let mut edges = edges.unwrap_or_default();
    edges.extend(edges.last().is_some_and(|last| *last < longest).then_some(longest));
    let mut below = 0;
    let bar = |edge: f64| {
        let until = match edge {
            edge if edge >= longest => histogram.len(),
            edge => histogram.count_between(0, edge as u64),
        };
        let count = until - below;
        below = until;
        Bar { up_to_us: edge / 1e3, count }
    };
    edges.into_iter().map(bar).collect()
}

/// The edges of a series from the first at or above `least`, to the first at or above `most`.
fn edges(series: &[f64], least: f64, most: f64) -> Vec<f64> {
    let all = POWERS.flat_map(|power| series.iter().map(move |edge| edge * 10_f64.powi(power)));
    let mut edges: Vec<f64> = all.filter(|edge| *edge >= least).collect();
    let after = edges.iter().position(|edge| *edge >= most).map_or(edges.len(), |last| last + 1);
    edges.truncate(after);
    edges
}

/// A histogram as rows of text, each as its name and its figure.
pub fn rows(histogram: &Histogram<u64>) -> Vec<(String, String)> {
    let bars = bars(histogram);
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let row = |bar: &Bar| {
        let share = bar.count as f64 / most as f64;
        let blocks = "■".repeat((share * BLOCKS as f64).round() as usize);
        let percent = 100.0 * bar.count as f64 / histogram.len() as f64;
        let percent = match percent {
            percent if bar.count > 0 && percent < 0.05 => "<0.1".to_owned(),
            percent => format!("{percent:.1}"),
        };
        let figure = format!("{blocks:<BLOCKS$}{:>12}  {percent:>5} %", bar.count);
        (format!("up to {}", duration(bar.up_to_us)), figure)
    };
    bars.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::histogram;
    use super::*;

    fn of(microseconds: impl IntoIterator<Item = u64>) -> Vec<(f64, u64)> {
        let bars = bars(&histogram(microseconds));
        bars.into_iter().map(|bar| (bar.up_to_us, bar.count)).collect()
    }

    #[test]
    fn rows_have_round_edges_and_the_last_one_ends_at_the_longest() {
        assert_eq!(of([]), []);
        assert_eq!(of([200, 200]), [(200.0, 2)]);
        let even = of(1..=1000);
        let edges: Vec<f64> = even.iter().map(|bar| bar.0).collect();
        assert_eq!(edges, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(even[9].1, 500);
    }

    #[test]
    fn one_slow_reply_has_a_row_and_squeezes_no_other() {
        let body = (0..2_000).map(|index| 1_000 + index);
        let bars = of(body.chain([2_000_000]));
        assert!(bars.len() > 6, "{bars:?}");
        let (edge, count) = bars[bars.len() - 1];
        assert!(edge > 1_998_000.0 && count == 1, "{bars:?}");
    }

    #[test]
    fn a_row_is_as_wide_as_a_figure() {
        for (name, figure) in rows(&histogram((1..=100_000).chain([3_000_000_000]))) {
            assert!(name.chars().count() <= 16, "{name}");
            assert!(figure.chars().count() <= 54, "{figure}");
        }
    }

    proptest! {
        #[test]
        fn each_latency_is_in_one_row(
            values in prop::collection::vec(1_u64..4_000_000_000, 1..200)
        ) {
            let bars = bars(&histogram(values.iter().copied()));
            prop_assert!(bars.len() <= MOST_ROWS + 1);
            prop_assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), values.len() as u64);
            prop_assert!(bars.windows(2).all(|two| two[0].up_to_us < two[1].up_to_us));
        }
    }
}
