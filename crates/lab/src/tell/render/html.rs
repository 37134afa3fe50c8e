//! A sheet as one page of HTML that needs nothing else.

use std::fmt::Write;

use minijinja::{Environment, Value, context};

use super::text::{TERMINAL, command};
use crate::format::escaped;
use crate::page::{environment, rendered, script_data};
use crate::tell::chart::plots::Plots;
use crate::tell::sheet::{
    Cell, Column, Figure, Form, Heading, Manner, Part, RawLines, Saved, Sheet, Side, Table, Tone,
    Watch, Words,
};

/// The page of a sheet.
pub fn html(sheet: &Sheet) -> String {
    let parts = || sheet.blocks_of(Form::Page).flat_map(|block| &block.parts);
    let environment = environment(&[
        ("sheet", include_str!("sheet.html.jinja")),
        ("part", include_str!("part.html.jinja")),
        ("table", include_str!("table.html.jinja")),
        ("plots", include_str!("plots.html.jinja")),
        ("script", include_str!("sheet.js")),
        ("plots.js", include_str!("plots.js")),
    ]);
    let mut page = Page { environment, raw: Vec::new(), plots: None };
    let body = page.parts(parts(), false);
    let data = sheet.saved.as_ref().map(|saved| script_data(&Data { saved, rows: &page.raw }));
    rendered(
        &page.environment,
        "sheet",
        context! {
            title => sheet.title,
            leads => matches!(parts().next(), Some(Part::Lead(_))),
            skip_to => sheet.skip_to,
            body => Value::from_safe_string(body),
            goes_on => sheet.watch == Some(Watch::GoesOn),
            plots => page.plots,
            data,
        },
    )
}

/// The data of the page's script.
#[derive(serde::Serialize)]
struct Data<'s> {
    #[serde(flatten)]
    saved: &'s Saved,
    rows: &'s [&'s RawLines],
}

/// A page on its way.
struct Page<'s> {
    environment: Environment<'static>,
    /// The lines that the page can show.
    raw: Vec<&'s RawLines>,
    /// The data of the plots.
    plots: Option<Value>,
}

impl<'s> Page<'s> {
    /// Parts as HTML. Charts that follow each other stand side by side, except in the lead.
    fn parts(&mut self, parts: impl IntoIterator<Item = &'s Part>, in_lead: bool) -> String {
        let (mut html, mut charts) = (String::new(), String::new());
        for part in parts {
            if let (Part::Figure(figure), false) = (part, in_lead) {
                charts += &self.part(&figure_value(figure));
                continue;
            }
            html += &self.group(&mut charts);
            let value = self.value(part, in_lead);
            html += &self.part(&value);
        }
        html + &self.group(&mut charts)
    }

    fn group(&self, charts: &mut String) -> String {
        match std::mem::take(charts) {
            none if none.is_empty() => none,
            charts => self.part(&context! { kind => "charts", html => safe(charts) }),
        }
    }

    fn part(&self, part: &Value) -> String {
        rendered(&self.environment, "part", context! { part })
    }

    /// A part, for the template `part`.
    fn value(&mut self, part: &'s Part, in_lead: bool) -> Value {
        let paragraph = |class: &str, words: &Words| {
            let text = words_html(words);
            context! { kind => "paragraph", class, text }
        };
        let list = |class: &str, title: &str, items: Vec<Value>| {
            context! { kind => "list", class, title, items }
        };
        match part {
            Part::Lead(parts) => {
                let html = safe(self.parts(parts, true));
                context! { kind => "lead", id => "recommendation", html }
            }
            Part::Beside(columns) => {
                let columns = columns.iter().map(|parts| safe(self.parts(parts, in_lead)));
                let class = if in_lead { "sight" } else { "pair" };
                context! { kind => "beside", class, columns => columns.collect::<Vec<_>>() }
            }
            Part::Details(title, parts) => {
                context! { kind => "details", title, html => safe(self.parts(parts, in_lead)) }
            }
            Part::Heading(heading) => heading_value(heading, 2),
            Part::Subheading(heading) => heading_value(heading, 3),
            Part::Answer(text) if in_lead => paragraph("headline", &text.as_str().into()),
            Part::Answer(text) => {
                let answer = self.part(&paragraph("headline", &text.as_str().into()));
                context! { kind => "lead", html => safe(answer) }
            }
            Part::Sentence(words) => paragraph("", words),
            Part::Note(words) => paragraph("caption", words),
            Part::Alarm(words) => paragraph(if in_lead { "alarm" } else { "disturbed" }, words),
            Part::Caution(words) => paragraph("noted", words),
            Part::Link { text, to } => context! { kind => "link", text, to },
            Part::Verbatim(text) => context! { kind => "verbatim", text },
            Part::Command(words) => {
                context! { kind => "verbatim", text => command(words, TERMINAL) }
            }
            Part::List(title, items) => {
                list("prose", title, items.iter().map(words_html).collect())
            }
            Part::Warnings(items) => list("warnings", "", items.iter().map(Value::from).collect()),
            Part::Facts(facts) => context! { kind => "facts", facts },
            Part::Key(colours) => context! { kind => "key", colours },
            Part::Table(table) => {
                self.raw.extend(table.rows.iter().flatten().filter_map(|cell| cell.raw.as_ref()));
                table_value(table)
            }
            Part::Figure(figure) => figure_value(figure),
            Part::Plots(plots, tables) => {
                self.plots = Some(script_data(plots));
                let tables = tables.iter().map(table_value);
                let tables: Vec<Value> = tables
                    .map(|part| rendered(&self.environment, "table", context! { part }))
                    .map(safe)
                    .collect();
                let Plots { choice, plots, .. } = plots;
                context! { kind => "plots", choice, plots, tables }
            }
            Part::Download { text, csv } => context! { kind => "download", text, csv },
        }
    }
}

fn safe(html: String) -> Value {
    Value::from_safe_string(html)
}

fn heading_value(Heading { text, id }: &Heading, level: u8) -> Value {
    context! { kind => "heading", text, id, level }
}

fn figure_value(figure: &Figure) -> Value {
    let Figure { id, title, caption, chart, csv, notes } = figure;
    let svg = safe(chart.svg());
    context! { kind => "figure", id, title, caption, svg, csv, notes }
}

/// A text in which some words stand out.
fn words_html(words: &Words) -> Value {
    let mut html = String::new();
    for word in &words.0 {
        let text = escaped(&word.text);
        // Writing to a string cannot fail.
        let _ = match &word.manner {
            Manner::Plain => write!(html, "{text}"),
            Manner::Strong => write!(html, "<b>{text}</b>"),
            Manner::Term => write!(html, "<dfn>{text}</dfn>"),
            Manner::Code => write!(html, "<code>{text}</code>"),
            Manner::Label => write!(html, "<span class=\"partial\">{text}</span>"),
            Manner::Link(to) => write!(html, "<a href=\"{}\">{text}</a>", escaped(to)),
        };
    }
    safe(html)
}

/// A table, for the template `table`.
fn table_value(table: &Table) -> Value {
    let column = |column: &Column| {
        let Column { name, is_turn: turn, sorts, .. } = column;
        context! { name, turn, sorts, left => column.side == Side::Left }
    };
    let columns: Vec<Value> = table.columns.iter().map(column).collect();
    let row = |row: &Vec<Cell>| {
        let cells = row.iter().zip(&table.columns).zip(&columns);
        let cells: Vec<Value> =
            cells.map(|((cell, of), column)| cell_value(cell, of, column)).collect();
        context! { cells, missing => row.iter().any(|cell| cell.spans > 0) }
    };
    let rows: Vec<Value> = table.rows.iter().map(row).collect();
    let Table { title, id, about, .. } = table;
    context! { kind => "table", title, id, about, header => table.has_header(), columns, rows }
}

fn cell_value(cell: &Cell, of: &Column, column: &Value) -> Value {
    let tone = match cell.tone {
        Tone::Plain if cell.spans > 0 => "reason",
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
    let name = (of.is_name && of.sorts).then(|| cell.text.clone());
    let value = cell.value.map(|value| value.to_string()).or(name);
    let spans = (cell.spans > 0).then(|| (cell.spans + 1).to_string());
    let attributes = [
        ("scope", of.is_name.then(|| "row".to_owned())),
        ("colspan", spans),
        ("title", Some(cell.about.clone()).filter(|about| !about.is_empty())),
        ("data-value", value),
    ];
    let attributes = attributes
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!(" {name}=\"{}\"", escaped(&value))));
    let attributes = safe(attributes.collect());
    let tag = if of.is_name { "th" } else { "td" };
    let Cell { text, note, to, mark, raw, .. } = cell;
    context! { text => text.trim(), note, to, mark, raw, tone, tag, attributes, column }
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
            Part::list("<s>list", ["<em>item"]),
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
