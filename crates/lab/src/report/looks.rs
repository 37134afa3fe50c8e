//! How a subject, which is an architecture or a peer, looks on every plot of the page: a colour, a marker and a dash pattern
//! of its own.
//!
//! Sixteen subjects differ by colour alone, on light paper and on dark, also to the colour-blind; the test says how far.
//! The earlier in the list, the further apart. Marker and dash carry the same distinction into black-and-white
//! print.

use serde::Serialize;

use crate::summary::Summary;

/// On light paper, and on dark.
const COLOURS: [(&str, &str); 16] = [
    ("#0063c9", "#5b9df0"),
    ("#472600", "#ffda72"),
    ("#e46212", "#b2511e"),
    ("#3fa0a0", "#138282"),
    ("#076246", "#77c4a3"),
    ("#3c376d", "#c1c0ff"),
    ("#877af7", "#6b62bf"),
    ("#83527f", "#bb87b6"),
    ("#003a3c", "#93f1f0"),
    ("#843b00", "#ed9c55"),
    ("#51895e", "#5d9669"),
    ("#826ea8", "#8e7ab5"),
    ("#905800", "#ca8e2c"),
    ("#526ee3", "#667fda"),
    ("#91917c", "#74735f"),
    ("#5a6b5d", "#8fa192"),
];

/// plotly.js's names, and what to draw for each in a legend (within 14 × 14).
const MARKERS: [(&str, &str); 9] = [
    ("circle", "M7 2a5 5 0 1 0 .01 0z"),
    ("square", "M2.5 2.5h9v9h-9z"),
    ("diamond", "M7 1l6 6-6 6-6-6z"),
    ("triangle-up", "M7 1.5l6 10.5H1z"),
    ("triangle-down", "M7 12.5L1 2h12z"),
    ("cross", "M5 1.5h4v3.5h3.5v4H9v3.5H5V9H1.5V5H5z"),
    ("x", "M4 1l3 3 3-3 3 3-3 3 3 3-3 3-3-3-3 3-3-3 3-3-3-3z"),
    ("star", "M7 .8l1.9 4 4.3.5-3.2 3 .9 4.4L7 10.5l-3.9 2.2.9-4.4-3.2-3 4.3-.5z"),
    ("hourglass", "M2 1.5h10L7 7l5 5.5H2L7 7z"),
];

/// plotly.js's names; the legend's line beneath the marker has the same, as lengths of dashes and gaps.
const DASHES: [(&str, &str); 4] =
    [("solid", ""), ("dash", "5 3"), ("dot", "1.5 2.5"), ("dashdot", "5 2 1.5 2")];

/// How a subject looks.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Look {
    pub(super) name: String,
    label: String,
    light: &'static str,
    dark: &'static str,
    pub(super) marker: &'static str,
    path: &'static str,
    pub(super) dash: &'static str,
    dash_lengths: &'static str,
}

/// The looks of the subjects, in their order.
pub(super) fn looks(summary: &Summary) -> Vec<Look> {
    let look = |(index, name): (usize, &String)| {
        let (light, dark) = COLOURS[index % COLOURS.len()];
        let (marker, path) = MARKERS[index % MARKERS.len()];
        // Those that come near each other in colour are far from each other in the list, so that their dashes differ.
        let (dash, dash_lengths) = DASHES[index / 4 % DASHES.len()];
        let label = summary.label(name);
        Look { name: name.clone(), label, light, dark, marker, path, dash, dash_lengths }
    };
    summary.subjects.iter().enumerate().map(look).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    type Triple = [f64; 3];

    fn linear(colour: &str) -> Triple {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn transformed(matrix: [Triple; 3], vector: Triple) -> Triple {
        matrix.map(|row| row.iter().zip(vector).map(|(factor, value)| factor * value).sum())
    }

    /// Björn Ottosson's OKLab, in which distances are about those that people see.
    fn oklab(rgb: Triple) -> Triple {
        let cones = transformed(
            [[0.41222, 0.53633, 0.05145], [0.2119, 0.68070, 0.10740], [0.0883, 0.28172, 0.62998]],
            rgb,
        );
        transformed(
            [[0.21045, 0.79362, -0.00407], [1.978, -2.42859, 0.45059], [0.0259, 0.78277, -0.80868]],
            cones.map(|value| value.max(0.0).cbrt()),
        )
    }

    /// What those see who have no cones for green, and none for red (Machado et al. 2009).
    const BLIND: [[Triple; 3]; 2] = [
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9690]],
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    ];

    fn distance(one: Triple, other: Triple) -> f64 {
        one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
    }

    fn luminance(colour: &str) -> f64 {
        let [red, green, blue] = linear(colour);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    #[test]
    fn sixteen_subjects_can_be_told_apart_by_colour_alone() {
        for theme in [COLOURS.map(|colour| colour.0), COLOURS.map(|colour| colour.1)] {
            for (place, one) in theme.iter().enumerate() {
                for other in &theme[..place] {
                    let seen = [linear(one), linear(other)];
                    // Just noticeable is about 0.02.
                    assert!(distance(oklab(seen[0]), oklab(seen[1])) > 0.05, "{one} {other}");
                    for eye in BLIND {
                        let [one_seen, other_seen] = seen.map(|rgb| {
                            oklab(transformed(eye, rgb).map(|value| value.clamp(0.0, 1.0)))
                        });
                        assert!(distance(one_seen, other_seen) > 0.05, "{one} {other}");
                    }
                }
            }
        }
    }

    /// WCAG 2.2, 1.4.11: three to one for what is drawn.
    #[test]
    fn colours_stand_out_from_their_paper() {
        let contrast = |one: f64, other: f64| (one.max(other) + 0.05) / (one.min(other) + 0.05);
        for (light, dark) in COLOURS {
            assert!(contrast(luminance(light), luminance("#ffffff")) > 3.0, "{light}");
            assert!(contrast(luminance(dark), luminance("#161b22")) > 3.0, "{dark}");
        }
    }

    #[test]
    fn sixteen_subjects_can_be_told_apart_without_colour() {
        let pairs = (0..16).map(|index| (index % MARKERS.len(), index / 4 % DASHES.len()));
        assert_eq!(pairs.collect::<BTreeSet<_>>().len(), 16);
    }
}
