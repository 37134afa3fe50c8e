//! A sheet as one page of HTML that needs nothing else.

use minijinja::{Value, context};

use super::text::{TERMINAL, command};
use crate::page::page;
use crate::tell::sheet::{Cell, Form, Part, Sheet, Side, Table, Tone, Watch};

/// The page of a sheet.
pub fn html(sheet: &Sheet) -> String {
    let parts = sheet.blocks_of(Form::Page).flat_map(|block| &block.parts);
    // Charts side by side make one part.
    let mut shown: Vec<Value> = Vec::new();
    let mut charts: Vec<Value> = Vec::new();
    for part in parts {
        if let Part::Figure(figure) = part {
            let svg = Value::from_safe_string(figure.chart.svg());
            let (title, notes) = (&figure.title, &figure.notes);
            charts.push(context! { title, svg, notes });
            continue;
        }
        shown.extend(group(&mut charts));
        shown.push(part_value(part));
    }
    shown.extend(group(&mut charts));
    page(
        include_str!("sheet.html.jinja"),
        context! {
            title => sheet.title,
            parts => shown,
            goes_on => sheet.watch == Some(Watch::GoesOn),
        },
    )
}

fn group(charts: &mut Vec<Value>) -> Option<Value> {
    let charts = std::mem::take(charts);
    (!charts.is_empty()).then(|| context! { kind => "charts", charts })
}

fn part_value(part: &Part) -> Value {
    let told = |kind: &str, text: &str| context! { kind, text };
    match part {
        Part::Heading(text) => told("heading", text),
        Part::Answer(text) => told("answer", text),
        Part::Sentence(text) => told("sentence", text),
        Part::Warning(text) => told("warning", text),
        Part::Note(text) => told("note", text),
        Part::Link { text, to } => context! { kind => "link", text, to },
        Part::Verbatim(text) => told("verbatim", text),
        Part::Command(words) => told("verbatim", &command(words, TERMINAL)),
        Part::List(title, items) => context! { kind => "list", title, items },
        Part::Key(colours) => context! { kind => "key", colours },
        Part::Table(table) => table_value(table),
        Part::Figure(_) => unreachable!("charts are grouped before"),
    }
}

/// A table alone, as HTML with an id.
pub(in crate::tell) fn table_html(table: &Table, id: &str) -> String {
    page("{% include \"table\" %}", context! { part => context! { id, ..table_value(table) } })
}

/// A table, for the template `table`.
fn table_value(table: &Table) -> Value {
    let columns: Vec<Value> = table
        .columns
        .iter()
        .map(|column| {
            context! { name => column.name, left => column.side == Side::Left, turn => column.is_turn }
        })
        .collect();
    let cell = |(cell, column): (&Cell, &Value)| {
        let tone = match cell.tone {
            Tone::Plain => "",
            Tone::Good => "better",
            Tone::Bad => "worse",
            Tone::Soft => "soft",
            Tone::Strong => "strong",
            Tone::Best => "best",
            Tone::Unsure => "unsure",
            Tone::Out => "out",
            Tone::Heat(..=1) => "heat1",
            Tone::Heat(2) => "heat2",
            Tone::Heat(3) => "heat3",
            Tone::Heat(_) => "heat4",
        };
        context! { text => cell.text.trim(), note => cell.note, to => cell.to, tone, column }
    };
    let rows = table.rows.iter();
    let rows: Vec<Vec<Value>> =
        rows.map(|row| row.iter().zip(&columns).map(cell).collect()).collect();
    let header = table.has_header();
    context! { kind => "table", title => table.title, header, columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tell::sheet::{left, right};

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new("<b>title");
        let rows = [vec!["<i>epoll".to_owned(), "1".to_owned()]];
        sheet.add([
            Part::Answer("Choose <u>epoll.".to_owned()),
            Part::Table(Table::new([left("<q>name"), right("rate")], rows)),
            Part::List("<s>list".to_owned(), vec!["<em>item".to_owned()]),
            Part::Key(vec![("#000".to_owned(), "<p>one".to_owned())]),
        ]);
        sheet
    }

    #[test]
    fn no_text_is_markup() {
        let page = html(&sheet());
        for name in ["<b>title", "<u>", "<i>", "<q>", "<s>", "<em>", "<p>one"] {
            assert!(!page.contains(name), "{name}: {page}");
        }
        assert!(page.contains("&lt;b&gt;title") && page.contains("&lt;i&gt;epoll"));
    }

    #[test]
    fn a_page_that_is_watched_follows_until_the_end() {
        let of = |watch| html(&Sheet { watch, ..sheet() });
        let refresh = "http-equiv=\"refresh\"";
        assert!(of(Some(Watch::GoesOn)).contains(refresh));
        assert!(!of(None).contains(refresh) && !of(Some(Watch::HasEnded)).contains(refresh));
    }
}
