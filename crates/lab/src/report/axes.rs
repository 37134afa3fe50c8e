//! The axes of the plots: which values are marked, and what they are called.

use serde_json::{Value, json};

use crate::format::{connections, duration, grouped};
use crate::summary::Summary;

/// How many names of numbers of connections fit side by side, also on a phone.
const NAMES: f64 = 4.0;

/// An axis without marks of its own. The page gives it its colours.
pub(super) fn axis(title: &str) -> Value {
    json!({
        "title": {"text": title, "standoff": 10, "font": {"size": 13}}, "zeroline": false,
        "ticks": "outside", "ticklen": 4, "automargin": true, "fixedrange": true,
    })
}

/// From zero on.
pub(super) fn linear(title: &str) -> Value {
    let mut linear = axis(title);
    linear["rangemode"] = json!("tozero");
    linear["tickformat"] = json!(",~s");
    linear
}

/// A logarithmic axis over `values`, marked where [`marks`] says, in the words of `name`.
pub(super) fn logarithmic(
    title: &str,
    values: impl Iterator<Item = f64>,
    name: impl Fn(f64) -> String,
) -> Value {
    let (low, high) = values
        .filter(|value| *value > 0.0 && value.is_finite())
        .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    let mut axis = axis(title);
    axis["type"] = json!("log");
    if low <= high {
        // Space for the markers.
        let (low, high) = (low / 1.4, high * 1.4);
        let marks = marks(low, high);
        axis["range"] = json!([low.log10(), high.log10()]);
        axis["tickmode"] = json!("array");
        axis["ticktext"] = marks.iter().map(|&mark| name(mark)).collect();
        axis["tickvals"] = json!(marks);
    }
    axis
}

/// Marks just the concurrencies that were measured, and names as many of them as there is room for.
pub(super) fn concurrency(summary: &Summary) -> Value {
    let measured = || summary.concurrency.iter().map(|&count| count as f64);
    let mut axis = logarithmic("open connections", measured(), grouped);
    let place = |count: usize| (count as f64).log10();
    let (least, most) = (summary.concurrency.iter().min(), summary.concurrency.iter().max());
    let room = least.zip(most).map_or(0.0, |(&least, &most)| (place(most) - place(least)) / NAMES);
    // From the largest down, for what happens there is what one looks for.
    let mut sorted = summary.concurrency.clone();
    sorted.sort_unstable();
    let mut named_last = f64::INFINITY;
    let mut names: Vec<String> = Vec::new();
    for &count in sorted.iter().rev() {
        let is_clear = named_last - place(count) >= room;
        names.push(if is_clear {
            named_last = place(count);
            connections(count).split(' ').next().unwrap_or_default().to_owned()
        } else {
            String::new()
        });
    }
    names.reverse();
    axis["ticktext"] = json!(names);
    axis["tickvals"] = json!(sorted);
    axis["tickangle"] = json!(0);
    axis
}

/// Times in microseconds, in people's units: `20 µs`, `1.5 ms`.
pub(super) fn time(microseconds: f64) -> String {
    duration(microseconds).replace(".0 ", " ")
}

/// The values to mark from `low` to `high`: powers of ten where there are several, else as many of the round numbers
/// between them as make three marks or more.
fn marks(low: f64, high: f64) -> Vec<f64> {
    /// Of one power of ten, from few to many.
    const STEPS: [&[f64]; 4] = [
        &[1.0],
        &[1.0, 2.0, 5.0],
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        &[1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0],
    ];
    let powers = low.log10().floor() as i32..=high.log10().floor() as i32;
    let within = |steps: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| steps.iter().map(move |step| (step, power)));
        all.map(|(step, power)| step * 10f64.powi(power))
            .filter(|mark| (low..=high).contains(mark))
            .collect()
    };
    STEPS.into_iter().map(within).find(|marks| marks.len() >= 3).unwrap_or_else(|| within(STEPS[3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f64, high: f64) -> Vec<String> {
        marks(low, high).into_iter().map(time).collect()
    }

    #[test]
    fn an_axis_has_three_marks_or_more_however_short_it_is() {
        assert_eq!(texts(8.0, 12_000.0), ["10 µs", "100 µs", "1 ms", "10 ms"]);
        assert_eq!(texts(150.0, 1200.0), ["200 µs", "500 µs", "1 ms"]);
        assert_eq!(texts(140.0, 420.0), ["150 µs", "200 µs", "300 µs", "400 µs"]);
        for low in [1.0, 1.3, 33.0, 870.0, 5.1e6] {
            // What a single value comes to, with its space.
            assert!(marks(low / 1.4, low * 1.4).len() >= 3, "{low}");
        }
    }

    #[test]
    fn an_axis_of_nothing_has_no_marks() {
        let axis = logarithmic("", [0.0, f64::NAN].into_iter(), time);
        assert!(axis["tickvals"].is_null());
    }
}
