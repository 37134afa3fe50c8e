//! Figures over load: a line for each subject, with the subject's name at the line's end.

use std::fmt::Write;

use super::labels::{BOLD, apart, cut, spread, width};
use super::{LOGARITHMIC, Scale};
use crate::format::escaped;
use crate::statistics::Interval;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 40.0;
/// The size of names and marks.
const SIZE: f64 = 12.5;
/// The height of a name, with some room.
const NAME: f64 = SIZE + 1.5;
/// The most room of a name, and of a mark of the upright axis.
const NAMES: f64 = 150.0;
const MARKS: f64 = 90.0;

/// A chart of lines.
#[derive(Clone, Debug)]
pub struct Lines {
    /// A description for readers that hear the page.
    pub about: String,
    /// The label beneath the axis.
    pub below: String,
    /// Whether the upright axis is logarithmic. Otherwise the axis begins at zero.
    pub is_logarithmic: bool,
    /// Whether the lower axis is straight and begins at zero. Otherwise the axis is logarithmic.
    pub is_straight_across: bool,
    /// The values to mark on the lower axis. If there are none, the axis chooses marks.
    pub marked: Vec<f64>,
    /// The format of values on the lower axis.
    pub across: fn(f64) -> String,
    /// The format of values on the upright axis.
    pub up: fn(f64) -> String,
    /// The lines.
    pub series: Vec<Series>,
    /// Whether a dotted line shows where both axes have the same value.
    pub has_diagonal: bool,
    /// The areas beneath the lines.
    pub bands: Vec<Band>,
}

/// An area between two lines, such as an interval along a line.
#[derive(Clone, Debug)]
pub struct Band {
    /// The rank of the area's line.
    pub rank: Option<usize>,
    /// Places on the lower axis, each with the two ends of the area there.
    pub points: Vec<(f64, Interval)>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name.
    pub name: String,
    /// The place among the coloured lines, from 0. `None` for a grey line.
    pub rank: Option<usize>,
    /// The points, each with its text.
    pub points: Vec<Point>,
    /// Points that cannot be trusted: hollow, and no part of the line.
    pub doubtful: Vec<Point>,
}

/// The place of a point, and its text.
pub type Point = (f64, f64, String);

/// Where the parts of a chart are.
struct Layout {
    /// The ends of the lower axis.
    left: f64,
    right: f64,
    /// The height of the lower axis, and of the picture.
    floor: f64,
    height: f64,
    x: Scale,
    y: Scale,
}

impl Lines {
    /// The chart.
    pub fn svg(&self) -> String {
        let Some(layout) = self.layout() else { return String::new() };
        let Layout { x, y, height, .. } = &layout;
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.about)
        );
        self.axes(&mut svg, &layout);
        if self.has_diagonal {
            let (from, to) = (x.low().max(y.low()), x.high().min(y.high()));
            let _ = write!(
                svg,
                "<path class=\"diagonal\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
                x.place(from),
                y.place(from),
                x.place(to),
                y.place(to)
            );
        }
        self.bands.iter().for_each(|band| area(&mut svg, band, x, y));
        // Coloured lines lie above grey lines, the first uppermost.
        let mut order: Vec<&Series> = self.series.iter().collect();
        order.sort_by_key(|series| std::cmp::Reverse(series.rank.unwrap_or(usize::MAX)));
        for series in order {
            line(&mut svg, series, x, y);
        }
        self.names(&mut svg, &layout);
        svg.push_str("</svg>");
        svg
    }

    /// The layout. `None` without points.
    fn layout(&self) -> Option<Layout> {
        let points =
            || self.series.iter().flat_map(|series| series.points.iter().chain(&series.doubtful));
        points().next()?;
        let corners = || {
            let areas = self.bands.iter().flat_map(|band| &band.points);
            let areas = areas.flat_map(|(x, Interval { low, high })| [(*x, *low), (*x, *high)]);
            points().map(|(x, y, _)| (*x, *y)).chain(areas)
        };
        let ends = |of: fn((f64, f64)) -> f64| {
            corners().map(of).fold([f64::MAX, f64::MIN_POSITIVE], |[low, high], value| {
                [low.min(value), high.max(value)]
            })
        };
        let (across, up) = (ends(|corner| corner.0), ends(|corner| corner.1));
        let names = self.series.iter().map(|series| BOLD * width(&series.name, SIZE));
        let right = WIDTH - names.fold(40.0, f64::max).min(NAMES) - 22.0;
        // The names at the ends of lines have room above each other.
        let height = HEIGHT.max(NAME * self.series.len() as f64 + TOP + BOTTOM);
        let floor = height - BOTTOM;
        let y = match self.is_logarithmic {
            true => Scale::logarithmic([up[0] / 1.15, up[1] * 1.15], [floor, TOP]),
            false => Scale::straight([0.0, up[1] * 1.05], [floor, TOP]),
        };
        let marks = y.marks().into_iter().map(|mark| width(&(self.up)(mark), SIZE));
        let left = marks.fold(30.0, f64::max).min(MARKS) + 10.0;
        let x = match self.is_straight_across {
            true => Scale::straight([0.0, across[1]], [left + 8.0, right]),
            false => Scale::logarithmic(across, [left + 8.0, right]),
        };
        Some(Layout { left, right, floor, height, x, y })
    }

    fn axes(&self, svg: &mut String, layout: &Layout) {
        let Layout { left, right, floor, height, x, y } = layout;
        let marks = y.marks();
        let wanted: Vec<(f64, f64)> = marks.iter().map(|mark| (y.place(*mark), SIZE)).collect();
        for (mark, label) in marks.iter().zip(spread(&wanted, [0.0, *height])) {
            let place = y.place(*mark);
            let _ = write!(svg, "<path class=\"rule\" d=\"M{left:.1} {place:.1}H{right:.1}\"/>");
            if let Some(middle) = label {
                let _ = write!(
                    svg,
                    "<text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    left - 6.0,
                    middle + SIZE / 4.0,
                    escaped(&cut(&(self.up)(*mark), SIZE, MARKS))
                );
            }
        }
        let marks = if self.marked.is_empty() { x.marks() } else { self.marked.clone() };
        let marks: Vec<(f64, String)> =
            marks.into_iter().map(|mark| (x.place(mark), (self.across)(mark))).collect();
        let wanted: Vec<(f64, f64)> =
            marks.iter().map(|(place, told)| (*place, width(told, SIZE))).collect();
        for ((place, told), label) in marks.iter().zip(spread(&wanted, [0.0, WIDTH])) {
            let _ = write!(svg, "<path class=\"rule\" d=\"M{place:.1} {floor}v4\"/>");
            if let Some(middle) = label {
                let _ = write!(
                    svg,
                    "<text class=\"mark\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    floor + 17.0,
                    escaped(told)
                );
            }
        }
        let below = match self.is_straight_across {
            true => self.below.clone(),
            false => format!("{}, {LOGARITHMIC}", self.below),
        };
        let _ = write!(
            svg,
            "<text class=\"mark\" x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            height - 6.0,
            escaped(&cut(&below, SIZE, *right))
        );
        if self.is_logarithmic {
            let _ = write!(
                svg,
                "<text class=\"mark\" x=\"{left:.1}\" y=\"{SIZE:.1}\">{LOGARITHMIC}</text>"
            );
        }
    }

    fn names(&self, svg: &mut String, layout: &Layout) {
        let Layout { right, floor, x, y, .. } = layout;
        let mut ends: Vec<(f64, f64, &Series)> = self
            .series
            .iter()
            .filter_map(|series| {
                let (across, up, _) = series.points.last().or(series.doubtful.last())?;
                Some((y.place(*up), x.place(*across), series))
            })
            .collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let wanted: Vec<f64> = ends.iter().map(|end| end.0).collect();
        // Names stand above the marks of the axis.
        let places = apart(&wanted, NAME, [TOP - NAME / 2.0, *floor]);
        for ((end, from, series), place) in ends.into_iter().zip(places) {
            let class = class(series.rank);
            let _ = write!(
                svg,
                "<path class=\"lead {class}\" d=\"M{:.1} {end:.1}H{:.1}L{:.1} {place:.1}\"/><text class=\"end {class}\" x=\"{:.1}\" \
                 y=\"{:.1}\">{}</text>",
                from + 5.0,
                right + 5.0,
                right + 13.0,
                right + 16.0,
                place + SIZE / 4.0,
                escaped(&cut(&series.name, BOLD * SIZE, NAMES))
            );
        }
    }
}

fn class(rank: Option<usize>) -> String {
    rank.map_or("rest".to_owned(), |rank| format!("s{rank}"))
}

fn area(svg: &mut String, band: &Band, x: &Scale, y: &Scale) {
    let there = band.points.iter().map(|(across, ends)| (across, ends.low));
    let back = band.points.iter().rev().map(|(across, ends)| (across, ends.high));
    let mut path = String::new();
    for (place, (across, up)) in there.chain(back).enumerate() {
        let letter = if place == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{:.1} {:.1}", x.place(*across), y.place(up));
    }
    let class = class(band.rank);
    let _ = write!(svg, "<g class=\"{class}\"><path class=\"band\" d=\"{path}Z\"/></g>");
}

fn line(svg: &mut String, series: &Series, x: &Scale, y: &Scale) {
    let class = class(series.rank);
    let mut path = String::new();
    for (place, (across, up, _)) in series.points.iter().enumerate() {
        let letter = if place == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{:.1} {:.1}", x.place(*across), y.place(*up));
    }
    let _ = write!(svg, "<g class=\"{class}\"><path class=\"line\" d=\"{path}\"/>");
    let sound = series.points.iter().map(|point| (point, "point"));
    for ((across, up, told), kind) in
        sound.chain(series.doubtful.iter().map(|point| (point, "point doubtful")))
    {
        let shape = match series.rank {
            Some(0) => "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0",
            Some(1) => "M-4 -4h8v8h-8z",
            Some(_) => "M0 -5.5L5.5 0L0 5.5L-5.5 0z",
            None => "M-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0 -4.8 0",
        };
        let _ = write!(
            svg,
            "<path class=\"{kind}\" d=\"{shape}\" transform=\"translate({:.1} {:.1})\"><title>{}</title></path>",
            x.place(*across),
            y.place(*up),
            escaped(told)
        );
    }
    svg.push_str("</g>");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::labels::tests::collision;
    use super::*;

    fn chart(names: usize) -> String {
        let series = (0..names)
            .map(|number| Series {
                name: format!("<name {number}>"),
                rank: (number < 3).then_some(number),
                points: vec![
                    (1.0, 10.0, String::new()),
                    (1000.0, 10.0 + 0.01 * number as f64, "<b>".into()),
                ],
                doubtful: Vec::new(),
            })
            .collect();
        let lines = Lines {
            about: "a \"chart\"".to_owned(),
            below: "connections".to_owned(),
            is_logarithmic: false,
            is_straight_across: false,
            marked: vec![1.0, 10.0, 1000.0],
            across: |value| format!("{value:.0}"),
            up: |value| format!("{value:.0}"),
            series,
            has_diagonal: false,
            bands: Vec::new(),
        };
        lines.svg()
    }

    #[test]
    fn names_at_the_ends_of_equal_lines_do_not_touch() {
        let svg = chart(14);
        let mut places: Vec<f64> = svg
            .split("<text class=\"end")
            .skip(1)
            .map(|rest| {
                rest.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
            })
            .collect();
        places.sort_by(f64::total_cmp);
        assert_eq!(places.len(), 14);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= SIZE - 0.1), "{places:?}");
        assert!(places[13] <= HEIGHT && places[0] >= SIZE / 2.0, "{places:?}");
    }

    proptest! {
        #[test]
        fn no_two_texts_collide_and_none_leaves_the_picture(
            lines in prop::collection::vec(("[a-zM%_一]{1,30}", prop::collection::vec((1.0..1e6_f64, 1e-3..1e9_f64), 1..6)), 1..30),
            is_logarithmic: bool,
            is_straight_across: bool,
            below in "[a-z ]{0,80}",
        ) {
            let point = |(x, y): (f64, f64)| (x, y, String::new());
            let series = lines.into_iter().enumerate().map(|(rank, (name, points))| Series {
                name,
                rank: (rank < 3).then_some(rank),
                points: points.into_iter().map(point).collect(),
                doubtful: Vec::new(),
            });
            let lines = Lines {
                about: String::new(),
                below,
                is_logarithmic,
                is_straight_across,
                marked: Vec::new(),
                across: |value| value.to_string(),
                up: |value| format!("{value} MiB"),
                series: series.collect(),
                has_diagonal: true,
                bands: Vec::new(),
            };
            let svg = lines.svg();
            prop_assert_eq!(collision(&svg, SIZE), None, "{}", svg);
            let said = usize::from(is_logarithmic) + usize::from(!is_straight_across);
            prop_assert!(svg.matches(LOGARITHMIC).count() == said || lines.below.len() > 20, "{}", svg);
        }
    }

    #[test]
    fn doubtful_points_are_hollow_and_no_part_of_the_line() {
        let mut lines = Lines {
            about: "a".to_owned(),
            below: "b".to_owned(),
            is_logarithmic: false,
            is_straight_across: false,
            marked: Vec::new(),
            across: |value| format!("{value:.0}"),
            up: |value| format!("{value:.0}"),
            series: vec![Series {
                name: "one".into(),
                rank: Some(0),
                points: vec![(1.0, 10.0, String::new()), (10.0, 20.0, String::new())],
                doubtful: vec![(100.0, 30.0, "invalid".into())],
            }],
            has_diagonal: false,
            bands: Vec::new(),
        };
        let line = |svg: &str| {
            let path = svg.split_once("class=\"line\" d=\"").unwrap().1;
            path.split_once('"').unwrap().0.matches('L').count()
        };
        let svg = lines.svg();
        assert_eq!((line(&svg), svg.matches("class=\"point\"").count()), (1, 2), "{svg}");
        assert_eq!(svg.matches("class=\"point doubtful\"").count(), 1, "{svg}");
        // These points and the name are drawn even without other points.
        lines.series[0].points.clear();
        let svg = lines.svg();
        assert!(svg.contains(">one</text>") && svg.contains("point doubtful"), "{svg}");
    }

    #[test]
    fn a_band_goes_there_and_back_within_the_axes() {
        let at = |x, low, high| (x, Interval { low, high });
        let lines = Lines {
            about: "a".to_owned(),
            below: "b".to_owned(),
            is_logarithmic: false,
            is_straight_across: false,
            marked: Vec::new(),
            across: |value| format!("{value:.0}"),
            up: |value| format!("{value:.0}"),
            series: vec![Series {
                name: "one".into(),
                rank: Some(1),
                points: vec![(1.0, 10.0, String::new())],
                doubtful: Vec::new(),
            }],
            has_diagonal: false,
            bands: vec![Band {
                rank: Some(1),
                points: vec![at(1.0, 9.0, 11.0), at(9.0, 8.0, 99.0)],
            }],
        };
        let svg = lines.svg();
        let path = svg.split_once("class=\"band\" d=\"").unwrap().1.split_once('"').unwrap().0;
        assert_eq!((path.matches('L').count(), path.ends_with('Z')), (3, true), "{path}");
        // The highest end of the band has a place below the top of the chart.
        assert!(svg.contains(">100<") && !path.contains(&format!(" {TOP:.1}L")), "{svg}");
    }

    #[test]
    fn nothing_that_it_is_given_is_markup() {
        let svg = chart(4);
        assert!(!svg.contains("<b>") && !svg.contains("<name") && svg.contains("&lt;name 3&gt;"));
        assert_eq!(
            (svg.matches("class=\"s0\"").count(), svg.matches("<g class=\"rest\"").count()),
            (1, 1)
        );
        assert_eq!(chart(0), "");
    }
}
