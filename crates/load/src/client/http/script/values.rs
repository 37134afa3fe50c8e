//! Values for placeholders: a table of comma-separated values (RFC 4180) with the columns' names in
//! its first line. Each connection has a row.

use duality_trace::Mistake;

/// The most rows and columns of a table, and the most bytes of its text.
const MOST_ROWS: usize = 1_000_000;
const MOST_COLUMNS: usize = 100;
const MOST_BYTES: usize = 64 << 20;

/// A table of values with named columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The line on which the row begins, from 1.
    pub(super) line: u64,
    pub(super) cells: Vec<Box<[u8]>>,
}

impl Values {
    /// The most bytes of a table's text.
    pub const MOST_BYTES: usize = MOST_BYTES;

    /// Reads a table. The first line has the columns' names. A name is not empty, has no braces,
    /// and stands for one column only. The table has at least one row.
    ///
    /// # Errors
    ///
    /// The line, the mistake in it, and the remedy.
    pub fn parse(text: &[u8]) -> Result<Self, Mistake> {
        if text.len() > MOST_BYTES {
            return Err(format!("the table is longer than {} MiB", MOST_BYTES >> 20).into());
        }
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
        let mut records = reader.byte_records();
        let head = match records.next() {
            Some(head) => head.map_err(|error| unreadable(&error))?,
            None => return Err("it is empty: write the names of the columns first".into()),
        };
        let mut values = Self { columns: columns(&head)?, rows: Vec::new() };
        let mut lines = LineCounter { text, passed: 0, line: 1 };
        for record in records {
            let record = record.map_err(|error| unreadable(&error))?;
            let start = record.position().map_or(0, csv::Position::byte);
            let line = lines.at(usize::try_from(start).unwrap_or(text.len()));
            if record.len() != values.columns.len() {
                return Err(format!(
                    "line {line}: {} values, and there are {} columns",
                    record.len(),
                    values.columns.len()
                )
                .into());
            }
            if values.rows.len() == MOST_ROWS {
                return Err(format!("line {line}: more than {MOST_ROWS} rows").into());
            }
            values.rows.push(Row { line, cells: record.iter().map(Into::into).collect() });
        }
        if values.rows.is_empty() {
            return Err("there is no row below the names of the columns".into());
        }
        Ok(values)
    }
}

/// Counts the lines of a text. The csv reader's own count is one too low after CR LF.
struct LineCounter<'a> {
    text: &'a [u8],
    /// The number of counted bytes, and the line of the next byte.
    passed: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// The line of the record that begins at `start`, or after the line ends at `start`.
    fn at(&mut self, start: usize) -> u64 {
        let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let start = start.clamp(self.passed, self.text.len());
        let start = start + self.text[start..].iter().take_while(is_end).count();
        let ends = self.text[self.passed..start].iter().filter(|byte| **byte == b'\n').count();
        self.passed = start;
        self.line += ends as u64;
        self.line
    }
}

/// The names of the columns.
fn columns(head: &csv::ByteRecord) -> Result<Vec<String>, Mistake> {
    if head.len() > MOST_COLUMNS {
        return Err(
            format!("line 1: {} columns; at most {MOST_COLUMNS} are read", head.len()).into()
        );
    }
    let mut columns: Vec<String> = Vec::new();
    for name in head {
        let name = str::from_utf8(name).map_err(|_| "line 1: a name is not UTF-8")?.trim();
        if name.is_empty() || name.contains(['{', '}']) || name.chars().any(char::is_control) {
            return Err(format!(
                "line 1: {name:?} is no name of a column: give each a name without braces"
            )
            .into());
        }
        if columns.iter().any(|column| column == name) {
            return Err(format!("line 1: two columns are called {name:?}").into());
        }
        columns.push(name.to_owned());
    }
    Ok(columns)
}

fn unreadable(error: &csv::Error) -> Mistake {
    let line = error.position().map_or(1, csv::Position::line);
    format!("line {line}: not comma-separated values").into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_has_names_and_rows() {
        let text = "id, name\n1,Ada\n2,\"Lovelace, Ada\"\r\n3,\"two\nlines\"\n4,\n";
        let values = Values::parse(text.as_bytes()).unwrap();
        assert_eq!(values.columns, ["id", "name"]);
        let second = |row: usize| String::from_utf8(values.rows[row].cells[1].to_vec()).unwrap();
        assert_eq!([0, 1, 2, 3].map(second), ["Ada", "Lovelace, Ada", "two\nlines", ""]);
        let lines: Vec<_> = values.rows.iter().map(|row| row.line).collect();
        assert_eq!(lines, [2, 3, 4, 6]);
    }

    #[test]
    fn what_is_no_table_is_told_with_its_line() {
        for (text, message) in [
            ("", "it is empty"),
            ("id,name\n", "no row"),
            ("id,name\n1,2\n3\n", "line 3: 1 values, and there are 2 columns"),
            ("id,name\n1,2,3\n", "line 2: 3 values"),
            ("id,\n1,2\n", "line 1: \"\" is no name"),
            ("id,{x}\n1,2\n", "without braces"),
            ("id,id\n1,2\n", "two columns are called \"id\""),
        ] {
            let problem = Values::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(problem.contains(message) && !problem.contains('\n'), "{text}: {problem}");
        }
        assert!(Values::parse(b"\xff\n1\n").unwrap_err().to_string().contains("not UTF-8"));
        let wide = vec!["x"; MOST_COLUMNS + 1].join(",");
        assert!(Values::parse(wide.as_bytes()).unwrap_err().to_string().contains("at most 100"));
    }

    proptest! {
        #[test]
        fn any_cells_are_read_back(
            rows in prop::collection::vec(prop::collection::vec(any::<String>(), 3), 1..8),
        ) {
            let quoted = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
            let mut text = "a,b,c\n".to_owned();
            for row in &rows {
                text += &row.iter().map(quoted).collect::<Vec<_>>().join(",");
                text.push('\n');
            }
            let values = Values::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(values.rows.len(), rows.len());
            for (read, row) in values.rows.iter().zip(&rows) {
                let written: Vec<&[u8]> = row.iter().map(String::as_bytes).collect();
                let read: Vec<&[u8]> = read.cells.iter().map(AsRef::as_ref).collect();
                prop_assert_eq!(read, written);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(text: Vec<u8>) {
            if let Ok(values) = Values::parse(&text) {
                let count = values.columns.len();
                prop_assert!(values.rows.iter().all(|row| row.cells.len() == count));
            }
        }
    }
}
