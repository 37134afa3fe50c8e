//! A sheet as text for a terminal.

use anstyle::{AnsiColor, Style};
use textwrap::core::display_width;

use crate::tell::sheet::{Block, Cell, Form, Part, Sheet, Side, Table, Tone, left};

/// The columns of a terminal.
pub const TERMINAL: usize = 80;
/// For answers with tables that are wider than a terminal: no sentence is folded.
pub const WIDE: usize = usize::MAX;

/// A sheet in lines. Sentences are folded at `width` columns.
pub fn text(sheet: &Sheet, width: usize) -> String {
    let blocks = sheet.blocks_of(Form::Terminal).map(|block| block_text(block, width));
    let blocks: Vec<String> = blocks.filter(|block| !block.is_empty()).collect();
    blocks.join("\n")
}

fn block_text(block: &Block, width: usize) -> String {
    parts_text(&block.parts, width)
}

fn part_text(part: &Part, width: usize) -> String {
    match part {
        Part::Lead(parts) => parts_text(parts, width),
        Part::Details(title, parts) => paragraph("", title, width) + &parts_text(parts, width),
        Part::Beside(columns) => columns.iter().map(|parts| parts_text(parts, width)).collect(),
        Part::Heading(heading) | Part::Subheading(heading) => paragraph("", &heading.text, width),
        Part::Answer(text) => paragraph("", text, width),
        Part::Sentence(words) | Part::Note(words) | Part::Alarm(words) | Part::Caution(words) => {
            paragraph("", &words.text(), width)
        }
        Part::Verbatim(text) => format!("{text}\n"),
        Part::Command(words) => command(words, width),
        Part::List(title, items) => {
            let items = items.iter().map(|item| paragraph("  ", &item.text(), width));
            let title = if title.is_empty() { String::new() } else { format!("{title}:\n") };
            title + &items.collect::<String>()
        }
        Part::Warnings(items) => items.iter().map(|item| paragraph("! ", item, width)).collect(),
        Part::Facts(facts) => {
            let rows = facts.iter().map(|(name, value)| vec![name.clone(), value.clone()]);
            aligned(&Table::new([left(""), left("")], rows), "")
        }
        Part::Table(table) => table_text(table),
        Part::Link { .. }
        | Part::Key(_)
        | Part::Figure(_)
        | Part::Plots(..)
        | Part::Download { .. } => String::new(),
    }
}

fn parts_text(parts: &[Part], width: usize) -> String {
    parts.iter().map(|part| part_text(part, width)).collect()
}

/// A paragraph. Further lines are indented by two columns more than the first one.
fn paragraph(indent: &str, text: &str, width: usize) -> String {
    let further = format!("{indent}  ");
    let options = textwrap::Options::new(width).break_words(false);
    let options = options.initial_indent(indent).subsequent_indent(&further);
    textwrap::fill(text, options) + "\n"
}

/// A command in lines that a shell reads as one.
pub(super) fn command(words: &[String], width: usize) -> String {
    let (mut text, mut line) = (String::new(), "   ".to_owned());
    for word in words {
        if display_width(&line) + display_width(word) + 3 > width {
            text += &format!("{line} \\\n");
            line = "     ".to_owned();
        }
        line.push(' ');
        line += word;
    }
    text + &line + "\n"
}

/// A table with its title. Beneath a title, rows are indented.
pub fn table_text(table: &Table) -> String {
    if table.title.is_empty() {
        return aligned(table, "");
    }
    format!("{}\n{}", table.title, aligned(table, "  "))
}

/// The columns that a table without a title takes on a terminal.
pub(in crate::tell) fn width_of(table: &Table) -> usize {
    let widths = widths(table);
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// The rows, with the header if there is one.
fn with_header(table: &Table) -> Vec<Vec<Cell>> {
    let header = || table.columns.iter().map(|column| column.name.clone().into()).collect();
    let header = table.has_header().then(header);
    header.into_iter().chain(table.rows.iter().cloned()).collect()
}

/// The width of each column. A letter of Chinese, Japanese or Korean takes two columns.
fn widths(table: &Table) -> Vec<usize> {
    let rows = with_header(table);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| display_width(&cell.text)).max().unwrap_or(0)
    };
    (0..table.columns.len()).map(width).collect()
}

/// The rows of a table, with columns as wide as their cells on a terminal.
pub(in crate::tell) fn aligned(table: &Table, indent: &str) -> String {
    let widths = widths(table);
    let mut text = String::new();
    for row in with_header(table) {
        let mut line = indent.to_owned();
        for (place, ((Cell { text: cell, tone, .. }, column), width)) in
            row.iter().zip(&table.columns).zip(&widths).enumerate()
        {
            let room = " ".repeat(width - display_width(cell));
            line += if place == 0 { "" } else { "  " };
            let style = style(*tone);
            let cell = match style == Style::new() {
                true => cell.clone(),
                false => format!("{style}{cell}{style:#}"),
            };
            line += &match column.side {
                Side::Left => cell + &room,
                Side::Right => room + &cell,
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// How a terminal shows a cell. Where the output is no terminal, the styles are removed.
fn style(tone: Tone) -> Style {
    let coloured = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match tone {
        Tone::Plain | Tone::Heat(..=1) => Style::new(),
        Tone::Strong => Style::new().bold(),
        Tone::Best => coloured(AnsiColor::Green).bold(),
        Tone::Good => coloured(AnsiColor::Green),
        Tone::Heat(2 | 3) | Tone::Unsure => coloured(AnsiColor::Yellow),
        Tone::Heat(_) | Tone::Bad => coloured(AnsiColor::Red),
        Tone::Soft | Tone::Out => Style::new().dimmed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tell::sheet::right;

    fn row(cells: [&str; 3]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn columns_are_as_wide_as_their_cells_on_a_terminal() {
        let rows = [row(["epoll", "9", "best"]), row(["スレッド", "10,000", ""])];
        let table = Table::new([left("name"), right("rate"), left("why")], rows);
        let expected = "\
name        rate  why
epoll          9  best
スレッド  10,000
";
        assert_eq!(aligned(&table, ""), expected);
    }

    #[test]
    fn a_table_of_columns_without_names_has_no_header() {
        let table = Table::new([left(""), left("")], [vec!["1 s".to_owned(), "begun".to_owned()]]);
        assert_eq!(table_text(&table.titled("What happened")), "What happened\n  1 s  begun\n");
    }

    #[test]
    fn a_blank_line_is_between_blocks_and_a_page_s_blocks_are_left_out() {
        let mut sheet = Sheet::new("title");
        let sentence = |text: &str| Part::sentence(text);
        sheet.add([sentence("one two three"), sentence("four")]);
        sheet.add_only(Form::Page, [sentence("five")]);
        sheet.add([Part::list("six", ["seven eight"])]);
        assert_eq!(text(&sheet, 10), "one two\n  three\nfour\n\nsix:\n  seven\n    eight\n");
    }

    #[test]
    fn a_command_is_one_for_a_shell() {
        let words = ["duality", "compare", "--window=1s"].map(str::to_owned);
        assert_eq!(command(&words, 80), "    duality compare --window=1s\n");
        assert_eq!(command(&words, 24), "    duality compare \\\n      --window=1s\n");
    }
}
