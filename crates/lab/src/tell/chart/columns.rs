//! Counts over time, as columns side by side.

use std::fmt::Write;

use crate::format::escaped;

/// The size of the chart.
const WIDTH: usize = 480;
const HEIGHT: usize = 80;

/// The columns.
#[derive(Clone, Debug)]
pub struct Columns {
    /// A description for readers that hear the page.
    pub about: String,
    /// What is counted.
    pub counted: &'static str,
    /// The counts.
    pub counts: Vec<u64>,
}

impl Columns {
    /// The drawing.
    pub fn svg(&self) -> String {
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let step = WIDTH / self.counts.len().max(1);
        let (about, wide) = (escaped(&self.about), step.saturating_sub(1).max(1));
        let mut svg =
            format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{about}\">");
        for (place, count) in self.counts.iter().enumerate() {
            let height = (HEIGHT as u64 * count).div_ceil(most);
            let (left, top) = (place * step, HEIGHT as u64 - height);
            // Writing to a string cannot fail.
            let _ = write!(
                svg,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{height}\" \
                 fill=\"currentColor\"><title>{count} {}</title></rect>",
                self.counted
            );
        }
        svg + "</svg>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_part_is_as_high_as_the_chart() {
        let columns = Columns { about: String::new(), counted: "requests", counts: vec![1, 0, 5] };
        let svg = columns.svg();
        assert!(svg.contains("height=\"80\"") && svg.contains("<title>5 requests"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 3);
    }
}
