//! Estimates with their intervals, one beneath the other: a forest plot (Lewis & Clarke 2001).
//!
//! The axis follows the estimates. An interval that reaches beyond the axis is cut, with an arrow.
//! Otherwise one very wide interval would make all others invisible.

use std::fmt::Write;

use super::labels::{BOLD, GAP, cut, spread, width};
use super::{LOGARITHMIC, Scale};
use crate::format::escaped;

const WIDTH: f64 = 430.0;
const ROW: f64 = 21.0;
const SIZE: f64 = 12.5;
const FOOT: f64 = 26.0;
/// The most room of a name, and of a figure.
const NAME: f64 = 150.0;
const FIGURE: f64 = 140.0;

/// A forest plot.
#[derive(Clone, Debug)]
pub struct Forest {
    /// A description for readers that hear the page.
    pub about: String,
    /// The value of a reference line.
    pub line: Option<f64>,
    /// Whether the axis is logarithmic. All values are above zero then.
    pub is_logarithmic: bool,
    /// The format of values on the axis.
    pub told: fn(f64) -> String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// An estimate.
#[derive(Clone, Debug)]
pub struct Row {
    /// Of what.
    pub name: String,
    /// The estimate.
    pub value: f64,
    /// The interval, if there is one.
    pub interval: Option<[f64; 2]>,
    /// The figure in words, at the right.
    pub figure: String,
    /// A class of its style: `level`, `better`, `worse`, `moved`, `unknown`, `other`, `invalid`.
    pub class: &'static str,
}

impl Row {
    /// The size of its letters. The name of a level subject is bold.
    fn size(&self) -> f64 {
        if self.class == "level" { BOLD * SIZE } else { SIZE }
    }
}

impl Forest {
    /// The plot. Empty without rows.
    pub fn svg(&self) -> String {
        if self.rows.iter().all(|row| !row.value.is_finite()) {
            return String::new();
        }
        let widest = |of: fn(&Row) -> &str| {
            self.rows.iter().map(|row| width(of(row), row.size())).fold(30.0, f64::max)
        };
        let scale = if self.is_logarithmic { LOGARITHMIC } else { "" };
        let left = widest(|row| &row.name).min(NAME) + 12.0;
        let right = widest(|row| &row.figure).min(FIGURE).max(width(scale, SIZE));
        let right = WIDTH - right - 14.0;
        let height = ROW * self.rows.len() as f64 + FOOT;
        let (low, high) = self.ends();
        let places = [left + 8.0, right - 8.0];
        let x = match self.is_logarithmic {
            true => Scale::logarithmic([low, high], places),
            false => Scale::straight([low, high], places),
        };
        let mut svg = format!(
            "<svg class=\"chart forest\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.about)
        );
        let floor = height - FOOT + 2.0;
        self.marks(&mut svg, &x, floor, right);
        if self.is_logarithmic {
            let _ = write!(
                svg,
                "<text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\">{LOGARITHMIC}</text>",
                right + 6.0,
                floor + 15.0
            );
        }
        if let Some(line) = self.line {
            let _ = write!(svg, "<path class=\"zero\" d=\"M{:.1} 0V{floor}\"/>", x.place(line));
        }
        let known = self.rows.iter().filter(|row| row.value.is_finite());
        for (place, row) in known.enumerate() {
            let middle = ROW * (place as f64 + 0.5);
            let _ = write!(
                svg,
                "<g class=\"{}\"><text class=\"name\" x=\"{:.1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text><text class=\"figure\" \
                 x=\"{4:.1}\" y=\"{2:.1}\">{5}</text>",
                row.class,
                left,
                middle + 4.2,
                escaped(&cut(&row.name, row.size(), NAME)),
                right + 6.0,
                escaped(&cut(&row.figure, row.size(), FIGURE))
            );
            whisker(&mut svg, row, &x, [low, high], middle);
            svg.push_str("</g>");
        }
        svg.push_str("</svg>");
        svg
    }

    /// Rules and their labels. A rule without room for its label stays.
    fn marks(&self, svg: &mut String, x: &Scale, floor: f64, right: f64) {
        let mut values = x.marks();
        // The label of the reference line comes first.
        values.sort_by_key(|mark| Some(*mark) != self.line);
        let marks: Vec<(f64, String)> =
            values.into_iter().map(|mark| (x.place(mark), (self.told)(mark))).collect();
        let wanted: Vec<(f64, f64)> =
            marks.iter().map(|(place, told)| (*place, width(told, SIZE))).collect();
        for ((place, told), label) in marks.iter().zip(spread(&wanted, [0.0, right + 6.0 - GAP])) {
            let _ = write!(svg, "<path class=\"rule\" d=\"M{place:.1} 0V{floor}\"/>");
            if let Some(middle) = label {
                let _ = write!(
                    svg,
                    "<text class=\"mark\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    floor + 15.0,
                    escaped(told)
                );
            }
        }
    }

    /// The ends of the axis: the estimates, and half of their span as room on either side.
    fn ends(&self) -> (f64, f64) {
        let on_axis = |value: f64| if self.is_logarithmic { value.ln() } else { value };
        let from_axis = |place: f64| if self.is_logarithmic { place.exp() } else { place };
        let values = self.rows.iter().map(|row| row.value).chain(self.line).map(on_axis);
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return (0.0, 1.0);
        }
        // If the estimates are almost equal, intervals get a reasonable room.
        let reach = self.rows.iter().filter_map(|row| {
            row.interval.map(|ends| ends.map(on_axis)).map(|[low, high]| (high - low) / 2.0)
        });
        let usual =
            crate::statistics::median(&reach.filter(|reach| reach.is_finite()).collect::<Vec<_>>());
        let room = (0.25 * (high - low)).max(usual.unwrap_or(0.0)).max(0.02 * high.abs()).max(1e-6);
        (from_axis(low - room), from_axis(high + room))
    }
}

fn whisker(svg: &mut String, row: &Row, x: &Scale, [low, high]: [f64; 2], middle: f64) {
    if let Some([from, to]) = row.interval {
        let (start, end) = (x.place(from), x.place(to));
        let _ = write!(svg, "<path class=\"whisker\" d=\"M{start:.1} {middle:.1}H{end:.1}\"/>");
        for (is_cut, place, way) in [(from < low, start, -1.0), (to > high, end, 1.0)] {
            if is_cut {
                let _ = write!(
                    svg,
                    "<path class=\"cut\" d=\"M{:.1} {:.1}l{:.1} 4.5v-9z\"/>",
                    place + 6.0 * way,
                    middle,
                    -7.0 * way
                );
            }
        }
    }
    let _ = write!(
        svg,
        "<path class=\"estimate\" d=\"M-4.5 -4.5h9v9h-9z\" transform=\"translate({:.1} {middle:.1})\"><title>{}</title></path>",
        x.place(row.value),
        escaped(&format!("{}: {}", row.name, row.figure))
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::labels::tests::collision;
    use super::*;

    fn row(name: &str, value: f64, interval: [f64; 2]) -> Row {
        Row {
            name: name.into(),
            value,
            interval: Some(interval),
            figure: "<5 %>".into(),
            class: "level",
        }
    }

    #[test]
    fn an_interval_of_millions_does_not_stretch_the_axis() {
        let rows = vec![
            row("a", 0.0, [-0.02, 0.02]),
            row("b", 0.1, [0.08, 0.12]),
            row("c", 0.12, [-4_975_761.0, 4_975_761.0]),
        ];
        let forest = Forest {
            about: "x".to_owned(),
            line: Some(0.0),
            is_logarithmic: false,
            told: |value| format!("{value:.2}"),
            rows,
        };
        let (low, high) = forest.ends();
        assert!(low > -0.2 && high < 0.4, "{low} {high}");
        let svg = forest.svg();
        assert_eq!(svg.matches("class=\"cut\"").count(), 2);
        assert!(svg.contains("&lt;5 %&gt;") && !svg.contains("<5"));
        // No point lies outside.
        let places = svg.split("translate(").skip(1).map(|rest| rest.split(' ').next().unwrap());
        assert!(
            places
                .map(|place| place.parse::<f64>().unwrap())
                .all(|place| (0.0..=WIDTH).contains(&place))
        );
    }

    #[test]
    fn on_a_logarithmic_axis_one_that_is_far_behind_leaves_room_for_the_others() {
        let rows = vec![
            row("a", 1.0, [1.0, 1.0]),
            row("b", 1.3, [1.2, 1.4]),
            row("c", 14.0, [11.0, 18.0]),
        ];
        let shown = |value: f64| format!("{value:.2}");
        let forest = Forest {
            about: "x".to_owned(),
            line: Some(1.0),
            is_logarithmic: true,
            told: shown,
            rows,
        };
        let (low, high) = forest.ends();
        assert!(low > 0.3 && high < 60.0, "{low} {high}");
        let scale = Scale::logarithmic([low, high], [0.0, 100.0]);
        assert!(scale.place(1.3) - scale.place(1.0) > 4.0);
    }

    proptest! {
        #[test]
        fn no_two_texts_collide_and_none_leaves_the_picture(
            rows in prop::collection::vec(("[a-zM%_一]{0,40}", 1e-6..1e6_f64, 1.0..9.0_f64), 1..30),
            spread in 0.0..1.0_f64,
            is_logarithmic: bool,
            digits in 0..9_usize,
        ) {
            let parts = [
                |value: f64| format!("{value:+.0} %"),
                |value: f64| format!("{value:+.9} %"),
                |value: f64| format!("{value:e}"),
            ][digits % 3];
            // Values that are near each other, and values that are far apart.
            let row = |(name, value, wide): (String, f64, f64)| Row {
                figure: format!("{value:.digits$} %"),
                value: value.powf(spread),
                interval: Some([value.powf(spread) / wide, value.powf(spread) * wide]),
                name,
                class: "level",
            };
            let rows = rows.into_iter().map(row).collect();
            let line = Some(1.0);
            let svg = Forest { about: String::new(), line, is_logarithmic, told: parts, rows }.svg();
            prop_assert_eq!(collision(&svg, SIZE), None, "{}", svg);
            prop_assert_eq!(svg.contains(LOGARITHMIC), is_logarithmic);
        }
    }

    #[test]
    fn labels_of_the_axis_do_not_touch() {
        let rows = vec![row("a", 1.0, [1.0, 1.0]), row("b", 30.0, [20.0, 50.0])];
        let drawn = |told| {
            let rows = rows.clone();
            Forest { about: "x".to_owned(), line: None, is_logarithmic: true, told, rows }.svg()
        };
        let (short, long) = (drawn(|_| "1".to_owned()), drawn(|_| "a very long label".to_owned()));
        let count = |svg: &str, class: &str| svg.matches(&format!("class=\"{class}\"")).count();
        assert_eq!(count(&short, "rule"), count(&long, "rule"));
        // The axis says that it is logarithmic.
        assert_eq!(count(&short, "mark"), count(&short, "rule") + 1);
        assert!((1..count(&short, "mark")).contains(&count(&long, "mark")), "{long}");
    }

    #[test]
    fn equal_ones_and_none_are_drawn() {
        let one = Forest {
            about: "x".to_owned(),
            line: None,
            is_logarithmic: false,
            told: |value| value.to_string(),
            rows: vec![row("a", 5.0, [5.0, 5.0])],
        };
        assert!(one.svg().contains("estimate"));
        let none = Forest {
            about: "x".to_owned(),
            line: None,
            is_logarithmic: false,
            told: |value| value.to_string(),
            rows: vec![],
        };
        assert_eq!(none.svg(), "");
    }
}
