//! The report: one HTML file that needs nothing else, neither a network nor another file.
//!
//! The page is `report.html.jinja`, with `report.js` and `plots.js`; `charts` makes the plots' data and `table` the rows; the library
//! that draws them (plotly.js) comes from the crate `plotly` and is written into the page. A
//! Content-Security-Policy in the page forbids it to load anything. Each figure leads to the lines of results.jsonl that it
//! comes from ([`RawLines`]). The reports of a plan have an [`index`], in the same style, and [`markdown`] gives the tables
//! to documents.

mod axes;
mod charts;
mod csv;
pub mod index;
mod looks;
pub mod markdown;
pub mod overlay;
mod raw;
mod table;

use std::path::Path;
use std::{fs, io};

use minijinja::{AutoEscape, Environment, Value, context};

use crate::record::{Experiment, Records};
use crate::summary::Summary;
use crate::{format, recommendation};

pub use raw::RawLines;

/// Writes the report to `path`.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(
    path: &Path,
    experiment: &Experiment,
    records: &Records,
    raw: &RawLines,
) -> io::Result<()> {
    fs::write(path, render(experiment, records, raw))
}

/// The report as HTML. `records` may be fewer than were planned; the page says so then.
pub fn render(experiment: &Experiment, records: &Records, raw: &RawLines) -> String {
    render_with(experiment, records, raw, plotly_source())
}

/// The same with the elements of script `plotly`, of which a fuzz target does not need 4 MB.
pub(crate) fn render_with(
    experiment: &Experiment,
    records: &Records,
    raw: &RawLines,
    plotly: String,
) -> String {
    let summary = Summary::of(experiment, records);
    let cells = &records.cells;
    let charts = charts::charts(&summary);
    let looks = looks::looks(&summary);
    let data = context! {
        service => summary.service, looks, charts, rows => table::row_lines(&summary, raw),
        csv => csv::cells(cells, raw),
    };
    let concurrency: Vec<(usize, String)> =
        summary.concurrency.iter().map(|&count| (count, format::connections(count))).collect();
    page(
        include_str!("report.html.jinja"),
        context! {
            experiment,
            partial => summary.partial(),
            compared => experiment.design.compared(),
            crowd => experiment.design.clients.crowd(),
            recommendation => recommendation::recommend(&summary, experiment, records).sentences,
            legend => looks,
            charts,
            data => script_data(&data),
            concurrency,
            lines => table::lines(&summary),
            rows => table::rows(&summary, raw),
            warnings => summary.warnings(),
            crowd_rows => table::crowd(&summary, cells),
            fates => table::FATES,
            memory => format::bytes(experiment.machine.memory_bytes as f64),
            command => table::command(&experiment.command),
            plotly => Value::from_safe_string(plotly),
        },
    )
}

/// A page from its template, in the one style that pages have.
pub(crate) fn page(template: &str, values: Value) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment
        .add_template("style", include_str!("style.css"))
        .and_then(|()| environment.add_template("theme", include_str!("theme.js")))
        .and_then(|()| environment.add_template("plots", include_str!("plots.js")))
        .and_then(|()| environment.add_template("script", include_str!("report.js")))
        .and_then(|()| environment.add_template("page", template))
        .and_then(|()| environment.get_template("page")?.render(values))
        .expect("the templates are part of the program, and use what they are given")
}

/// Data for a `<script type="application/json">`: nothing in it can end the element.
fn script_data(data: &impl serde::Serialize) -> Value {
    let json = serde_json::to_string(data).expect("it is plain data");
    Value::from_safe_string(json.replace('<', "\\u003c"))
}

/// plotly.js in its `<script>`. The crate gives MathJax after it, 2 MB that no chart here needs.
fn plotly_source() -> String {
    const END: &str = "</script>";
    let mut sources = plotly::Plot::offline_js_sources();
    let end = sources.find(END).expect("the first script is plotly.js") + END.len();
    sources.truncate(end);
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_its_element() {
        let data = script_data(&["</script><script>alert(1)</script>"]).to_string();
        assert!(!data.contains('<'), "{data}");
    }

    #[test]
    fn only_plotly_is_taken() {
        let source = plotly_source();
        assert!(source.contains("plotly.js v"));
        assert_eq!(source.matches("</script>").count(), 1);
    }
}
