//! Stacked bars, after Demsky's figures 4-1 and 4-2: what a sum is made of, one bar beneath the
//! other.

use std::fmt::Write;

use super::labels::{GAP, cut, width};
use crate::format::escaped;

const ROW: f64 = 30.0;
const BAR: f64 = 20.0;
const WIDTH: f64 = 640.0;
/// The size of letters.
const SIZE: f64 = 13.0;
/// The most room of a name, and of a figure behind the longest bar.
const NAMES: f64 = 160.0;
const FIGURES: f64 = 180.0;

/// A chart of bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// A description for readers that hear the page.
    pub about: String,
    /// The format of a part.
    pub told: fn(f64) -> String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A sum.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Of what.
    pub name: String,
    /// The parts, from the left.
    pub parts: Vec<Piece>,
    /// The sum in words, at the right.
    pub figure: String,
}

/// A part of a sum.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The name.
    pub name: &'static str,
    /// The colour, as in the page's key.
    pub colour: &'static str,
    /// The value, not below zero.
    pub value: f64,
}

impl Bars {
    /// The drawing.
    pub fn svg(&self) -> String {
        let length = |bar: &Bar| bar.parts.iter().map(|part| part.value).sum::<f64>();
        let longest = self.bars.iter().map(length).fold(f64::MIN_POSITIVE, f64::max);
        let widest = |of: fn(&Bar) -> &str, most: f64| {
            self.bars.iter().map(|bar| width(of(bar), SIZE)).fold(30.0, f64::max).min(most)
        };
        let names = widest(|bar| &bar.name, NAMES) + GAP;
        let figures = widest(|bar| &bar.figure, FIGURES) + GAP;
        let scale = (WIDTH - names - figures) / longest;
        let height = ROW * self.bars.len() as f64;
        let mut svg = format!(
            "<svg class=\"bars\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.about)
        );
        for (index, bar) in self.bars.iter().enumerate() {
            self.bar(&mut svg, bar, ROW * index as f64, names, scale);
        }
        svg + "</svg>"
    }

    fn bar(&self, svg: &mut String, bar: &Bar, top: f64, names: f64, scale: f64) {
        let line = top + ROW / 2.0 + SIZE / 3.0;
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{line:.1}\" text-anchor=\"end\">{}</text>",
            names - GAP,
            escaped(&cut(&bar.name, SIZE, NAMES))
        );
        let mut left = names;
        for part in &bar.parts {
            let width = part.value * scale;
            if width > 0.0 {
                let about = format!("{}: {} {}", bar.name, part.name, (self.told)(part.value));
                let _ = write!(
                    svg,
                    "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{BAR}\" \
                     fill=\"{}\"><title>{}</title></rect>",
                    top + (ROW - BAR) / 2.0,
                    part.colour,
                    escaped(&about)
                );
            }
            left += width;
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{line:.1}\" class=\"figure\">{}</text>",
            left + GAP,
            escaped(&cut(&bar.figure, SIZE, FIGURES))
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::labels::tests::collision;
    use super::*;

    fn bar(name: &str, values: [f64; 2], figure: &str) -> Bar {
        let piece = |value| Piece { name: "part", colour: "#fff", value };
        Bar { name: name.to_owned(), parts: values.map(piece).to_vec(), figure: figure.to_owned() }
    }

    proptest! {
        #[test]
        fn no_two_texts_collide_and_none_leaves_the_picture(
            bars in prop::collection::vec(("[a-zM%_一]{0,40}", 0.0..1e6_f64, "[0-9 a-z]{0,40}"), 1..20),
        ) {
            let bars = bars.iter().map(|(name, value, figure)| bar(name, [*value, 0.5], figure));
            let shown = |value: f64| value.to_string();
            let svg = Bars { about: String::new(), told: shown, bars: bars.collect() }.svg();
            prop_assert_eq!(collision(&svg, SIZE), None, "{}", svg);
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_parts_and_no_name_is_markup() {
        let shown = |value: f64| value.to_string();
        let bars = vec![bar("<b>&\"", [1.0, 0.0], ""), bar("epoll", [1.5, 2.5], "")];
        let svg = Bars { about: String::new(), told: shown, bars }.svg();
        assert!(svg.contains("&lt;b&gt;&amp;&quot;") && !svg.contains("<b>"), "{svg}");
        let widths = svg.split("<rect").skip(1).map(|rest| {
            let width = rest.split(" width=\"").nth(1).unwrap();
            width.split('"').next().unwrap().parse::<f64>().unwrap()
        });
        let widths: Vec<f64> = widths.collect();
        let whole = widths[1] + widths[2];
        assert!((widths[0] - whole / 4.0).abs() < 0.01, "{widths:?}");
        assert!((widths[1] - whole * 1.5 / 4.0).abs() < 0.01, "{widths:?}");
    }
}
