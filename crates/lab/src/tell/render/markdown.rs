//! A table of a sheet as Markdown, for documents that quote it.

use crate::tell::sheet::{Side, Table};

/// The table under its title.
pub fn table_markdown(table: &Table) -> String {
    let columns = || table.columns.iter();
    let rule = columns().map(|column| if column.side == Side::Left { "---" } else { "---:" });
    let header = line(columns().map(|column| column.name.as_str())) + &line(rule);
    let rows = table.rows.iter().map(|row| line(row.iter().map(|cell| cell.text.as_str())));
    let title = match table.title.is_empty() {
        true => String::new(),
        false => format!("{}\n\n", table.title),
    };
    title + &header + &rows.collect::<String>()
}

/// A text of which no letter is Markdown.
pub(in crate::tell) fn plain(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        if matches!(letter, '\\' | '`' | '*' | '_' | '[' | '<' | '|' | '#') {
            plain.push('\\');
        }
        plain.push(if letter == '\n' { ' ' } else { letter });
    }
    plain
}

fn line<'c>(cells: impl Iterator<Item = &'c str>) -> String {
    // Names come from a file of unknown origin.
    let cell = |cell: &str| format!("| {} ", cell.replace('|', "\\|").replace('\n', " "));
    cells.map(cell).collect::<String>() + "|\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tell::sheet::{left, right};

    #[test]
    fn no_cell_ends_its_column_or_its_row() {
        let rows = [vec!["a|b\nc".to_owned(), "1".to_owned()]];
        let table = Table::new([left(""), right("rate")], rows).titled("Rates");
        let expected = "Rates\n\n|  | rate |\n| --- | ---: |\n| a\\|b c | 1 |\n";
        assert_eq!(table_markdown(&table), expected);
    }
}
