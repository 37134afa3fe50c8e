//! Stacked bars, after Demsky's figures 4-1 and 4-2: what a sum is made of, one bar beneath the
//! other.

use std::fmt::Write;

use crate::format::escaped;

const ROW: f64 = 30.0;
const BAR: f64 = 20.0;
const NAMES: f64 = 96.0;
const WIDTH: f64 = 640.0;
/// Room for a figure behind the longest bar.
const FIGURES: f64 = 76.0;

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
        let scale = (WIDTH - NAMES - FIGURES) / longest;
        let height = ROW * self.bars.len() as f64;
        let mut svg = format!(
            "<svg class=\"bars\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.about)
        );
        for (index, bar) in self.bars.iter().enumerate() {
            self.bar(&mut svg, bar, ROW * index as f64, scale);
        }
        svg + "</svg>"
    }

    fn bar(&self, svg: &mut String, bar: &Bar, top: f64, scale: f64) {
        let middle = top + ROW / 2.0;
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{middle:.1}\" class=\"name\">{}</text>",
            NAMES - 8.0,
            escaped(&bar.name)
        );
        let mut left = NAMES;
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
            "<text x=\"{:.1}\" y=\"{middle:.1}\" class=\"figure\">{}</text>",
            left + 6.0,
            escaped(&bar.figure)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_parts_and_no_name_is_markup() {
        let piece = |value| Piece { name: "part", colour: "#fff", value };
        let bar = |name: &str, values: [f64; 2]| Bar {
            name: name.to_owned(),
            parts: values.map(piece).to_vec(),
            figure: String::new(),
        };
        let told = |value: f64| value.to_string();
        let bars = vec![bar("<b>&\"", [1.0, 0.0]), bar("epoll", [1.5, 2.5])];
        let svg = Bars { about: String::new(), told, bars }.svg();
        assert!(svg.contains("&lt;b&gt;&amp;&quot;") && !svg.contains("<b>"), "{svg}");
        let widths = svg.split("<rect").skip(1).map(|rest| {
            let width = rest.split(" width=\"").nth(1).unwrap();
            width.split('"').next().unwrap().parse::<f64>().unwrap()
        });
        let room = WIDTH - NAMES - FIGURES;
        let expected = [0.25, 0.375, 0.625].map(|share| share * room);
        assert_eq!(widths.collect::<Vec<f64>>(), expected, "{svg}");
    }
}
