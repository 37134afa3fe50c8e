//! A card as SVG: 1,200 wide, which is what pages that show a link expect.

use std::fmt::Write;

use super::Share;
use crate::format::escaped;
use crate::tell::chart::labels::{BOLD, cut, width};
use crate::tell::sheet::{Cell, Tone};

/// The width of the picture, and of what is in it.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 48.0;
const INNER: f64 = WIDTH - 2.0 * MARGIN;
/// The height of a row of the map.
const ROW: f64 = 34.0;
/// The most room of a name.
const NAME: f64 = 340.0;
/// The sizes of letters.
const HEADLINE: f64 = 34.0;
const CELL: f64 = 20.0;
const SMALL: f64 = 17.0;

/// The colours of the card: those of a light page.
const INK: &str = "#1c2733";
const SOFT: &str = "#566370";
const WARN: &str = "#8a4b08";

/// A picture and its size.
pub(super) struct Picture {
    pub(super) text: String,
    pub(super) size: [f64; 2],
}

/// How a line of text is written.
#[derive(Clone, Copy)]
struct Style {
    size: f64,
    weight: u16,
    ink: &'static str,
}

/// A picture that grows downwards.
struct Drawing {
    text: String,
    bottom: f64,
}

impl Share {
    /// The card as SVG.
    pub(super) fn svg(&self) -> Picture {
        let mut drawing = Drawing { text: String::new(), bottom: MARGIN - 14.0 };
        let soft = Style { size: SMALL, weight: 400, ink: SOFT };
        drawing.lines(&self.title, soft);
        drawing.bottom += 8.0;
        drawing.lines(&self.headline, Style { size: HEADLINE, weight: 700, ink: INK });
        for alarm in &self.alarms {
            drawing.lines(alarm, Style { size: CELL, weight: 600, ink: WARN });
        }
        drawing.bottom += 14.0;
        self.map(&mut drawing);
        drawing.bottom += 6.0;
        drawing.lines(&self.key.join("; "), soft);
        drawing.bottom += 10.0;
        drawing.lines(&self.machine, soft);
        drawing.lines(&format!("$ {}", self.command), soft);
        drawing.lines(&format!("results.jsonl: SHA-256 {}", self.hash), soft);
        let height = (drawing.bottom + MARGIN - 14.0).ceil();
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"system-ui, sans-serif\" role=\"img\" aria-label=\"{}\">\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/><rect width=\"10\" height=\"{height}\" \
             fill=\"#0063c9\"/>{}</svg>\n",
            escaped(&self.headline),
            drawing.text
        );
        Picture { text, size: [WIDTH, height] }
    }

    /// The map: names at the left, and columns of the same width.
    fn map(&self, drawing: &mut Drawing) {
        let names = self.map.rows.iter().filter_map(|row| row.first());
        let names = names.map(|name| BOLD * width(&name.text, CELL)).fold(120.0, f64::max);
        let names = names.min(NAME) + 16.0;
        let columns = self.map.columns.len().saturating_sub(1).max(1);
        let wide = ((INNER - names) / columns as f64).min(200.0);
        let left = |column: usize| MARGIN + names + wide * (column as f64 - 1.0);
        let top = drawing.bottom;
        for (place, column) in self.map.columns.iter().enumerate() {
            let style = Style { size: SMALL, weight: 600, ink: SOFT };
            match place {
                0 => drawing.text_at(MARGIN, top + 22.0, "start", &column.name, style, names),
                _ => {
                    let middle = left(place) + wide / 2.0;
                    drawing.text_at(middle, top + 22.0, "middle", &column.name, style, wide - 4.0);
                }
            }
        }
        for (row, cells) in self.map.rows.iter().enumerate() {
            let top = top + ROW * (row as f64 + 1.0);
            for (place, Cell { text, tone, .. }) in cells.iter().enumerate() {
                let (fill, ink) = colours(*tone);
                let style = Style { size: CELL, weight: 600, ink };
                if place == 0 {
                    drawing.text_at(MARGIN, top + 23.0, "start", text, style, names - 12.0);
                    continue;
                }
                // Writing to a string cannot fail.
                let _ = write!(
                    drawing.text,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"4\" fill=\"{fill}\"/>",
                    left(place) + 1.5,
                    top + 1.5,
                    wide - 3.0,
                    ROW - 3.0
                );
                let middle = left(place) + wide / 2.0;
                drawing.text_at(middle, top + 23.0, "middle", text, style, wide - 8.0);
            }
        }
        let rows = self.map.rows.len() as f64 + 1.0;
        let turns = self.map.columns.iter().enumerate().filter(|(_, column)| column.is_turn);
        for (place, _) in turns {
            let _ = write!(
                drawing.text,
                "<path d=\"M{:.1} {top:.1}v{:.1}\" stroke=\"{INK}\" stroke-width=\"3\"/>",
                left(place),
                ROW * rows
            );
        }
        drawing.bottom += ROW * rows;
    }
}

impl Drawing {
    /// A paragraph, folded at the width of the picture.
    fn lines(&mut self, text: &str, style: Style) {
        let bold = if style.weight > 400 { BOLD } else { 1.0 };
        for line in folded(text, bold * style.size) {
            self.bottom += 1.3 * style.size;
            self.text_at(MARGIN, self.bottom, "start", &line, style, INNER);
        }
    }

    /// A text that is cut where it has no room.
    fn text_at(&mut self, x: f64, y: f64, anchor: &str, text: &str, style: Style, room: f64) {
        let Style { size, weight, ink } = style;
        let bold = if weight > 400 { BOLD } else { 1.0 };
        let _ = write!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" fill=\"{ink}\" \
             text-anchor=\"{anchor}\">{}</text>",
            escaped(&cut(text, bold * size, room))
        );
    }
}

/// The text in lines that fit.
fn folded(text: &str, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= INNER => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The colour of a cell, and of its text.
fn colours(tone: Tone) -> (&'static str, &'static str) {
    match tone {
        Tone::Best => ("#1d7d4c", "#ffffff"),
        Tone::Good => ("#bfe5cf", INK),
        Tone::Strong => ("#dbe9fa", INK),
        Tone::Heat(..=1) => ("#fdf0d5", INK),
        Tone::Heat(2) => ("#f9d29d", INK),
        Tone::Heat(3) => ("#f0a36b", INK),
        Tone::Heat(_) | Tone::Bad => ("#b83c2c", "#ffffff"),
        Tone::Unsure | Tone::Soft | Tone::Out => ("#eceff3", SOFT),
        Tone::Plain => ("none", INK),
    }
}
