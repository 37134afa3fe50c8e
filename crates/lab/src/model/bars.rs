//! Stacked bars as SVG, after Demsky's figures 4-1 and 4-2. Each architecture has one bar, which
//! begins with t_independent.

use std::fmt::Write;

use crate::format::duration;

use super::{Modelled, TERMS, Workload};

/// The colour of t_independent, as in the page's legend.
pub(super) const INDEPENDENT: &str = "#88ccee";

const ROW: f64 = 30.0;
const BAR: f64 = 20.0;
const NAMES: f64 = 96.0;
const WIDTH: f64 = 640.0;
/// Room for a figure behind the longest bar.
const FIGURES: f64 = 76.0;

/// The bars of a workload; its texts are escaped.
pub(super) fn svg(workload: &Workload) -> String {
    let longest = workload.subjects.iter().map(length).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - NAMES - FIGURES) / longest;
    let height = ROW * workload.subjects.len() as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escaped(&format!("{}: where the time of a request goes", workload.name))
    );
    for (index, subject) in workload.subjects.iter().enumerate() {
        let top = ROW * index as f64;
        let middle = top + ROW / 2.0;
        let name = escaped(&subject.architecture);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{middle:.1}\" class=\"name\">{name}</text>",
            NAMES - 8.0
        );
        let mut left = NAMES;
        for (what, colour, microseconds) in parts(subject) {
            let width = microseconds * scale;
            if width > 0.0 {
                let about = escaped(&format!(
                    "{}: {what} {}",
                    subject.architecture,
                    duration(microseconds)
                ));
                let _ = write!(
                    svg,
                    "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{BAR}\" fill=\"{colour}\"><title>{about}</title></rect>",
                    top + (ROW - BAR) / 2.0,
                );
            }
            left += width;
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{middle:.1}\" class=\"figure\">{}</text>",
            left + 6.0,
            escaped(&duration(subject.total))
        );
    }
    svg.push_str("</svg>");
    svg
}

fn parts(subject: &Modelled) -> impl Iterator<Item = (&'static str, &'static str, f64)> {
    let terms = TERMS.iter().zip(subject.terms);
    let terms = terms.map(|(term, microseconds)| (term.name, term.colour, microseconds));
    [("t_independent", INDEPENDENT, subject.independent().max(0.0))].into_iter().chain(terms)
}

fn length(subject: &Modelled) -> f64 {
    subject.dependent() + subject.independent().max(0.0)
}

/// Names come from files of unknown origin.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::workload;

    #[test]
    fn a_bar_is_as_long_as_its_parts_and_no_name_is_markup() {
        let mut workload = workload();
        workload.subjects[0].architecture = "<b>&\"".into();
        let svg = svg(&workload);
        assert!(svg.contains("&lt;b&gt;&amp;&quot;") && !svg.contains("<b>"), "{svg}");
        assert_eq!(svg.matches("class=\"name\"").count(), workload.subjects.len());
        let widest = length(&workload.subjects[1]);
        assert!(workload.subjects.iter().all(|subject| length(subject) <= widest + 1e-9));
        let drawn: f64 = svg
            .rsplit_once("class=\"name\"")
            .unwrap()
            .1
            .split(" width=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap())
            .sum();
        assert!(drawn > 0.0 && drawn <= WIDTH - NAMES - FIGURES + 1.0, "{drawn}");
    }
}
