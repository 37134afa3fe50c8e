//! The records of requests as a file, written after the server's end.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use duality_architectures::common::pressure::remedy;
use duality_runtime::log;
use duality_runtime::visibility::{self, Record};

use super::output;
use crate::failure::{Blame, Failure, Party};

/// The file of the records, and its form.
#[derive(Clone, Debug)]
pub(crate) struct RecordsFile {
    path: PathBuf,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Csv,
    JsonLines,
}

impl FromStr for RecordsFile {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = PathBuf::from(text);
        let form = match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Form::Csv,
            Some("jsonl") => Form::JsonLines,
            _ => return Err("the name ends with .csv or .jsonl, which says the form"),
        };
        Ok(Self { path, form })
    }
}

/// Records in progress.
pub(super) struct Records {
    file: File,
    to: RecordsFile,
    limit: usize,
}

impl Records {
    /// Opens the file, and begins to record up to `limit` requests.
    pub(super) fn begin(to: &RecordsFile, limit: usize) -> Result<Self, Failure> {
        let file = output::create(&to.path, "--records")?;
        visibility::prepare_records(limit).map_err(|error| {
            Failure::new(Party::Machine, format!("--records-limit: {error}{}", remedy(&error)))
        })?;
        Ok(Self { file, to: to.clone(), limit })
    }

    /// Writes the records.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let (records, surplus) = visibility::records();
        if surplus > 0 {
            log::warn(format_args!(
                "{surplus} requests are not recorded, because --records-limit is {}: give more",
                self.limit
            ));
        }
        write(BufWriter::new(self.file), self.to.form, &records)
            .blame_at(Party::Machine, format_args!("--records: {}", Path::display(&self.to.path)))
    }
}

/// The columns, which are also the names in JSON.
const COLUMNS: [&str; 6] = ["t1_ns", "t2_ns", "blocks1", "blocks2", "clients1", "clients2"];

fn write(mut output: impl Write, form: Form, records: &[Record]) -> io::Result<()> {
    if matches!(form, Form::Csv) {
        writeln!(output, "{}", COLUMNS.join(","))?;
    }
    for record in records {
        let row = [
            record.came_ns,
            record.answered_ns,
            record.blocks_before,
            record.blocks_after,
            record.clients_before,
            record.clients_after,
        ];
        let (open, close) = match form {
            Form::Csv => ("", ""),
            Form::JsonLines => ("{", "}"),
        };
        write!(output, "{open}")?;
        for (index, (name, number)) in COLUMNS.iter().zip(row).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match form {
                Form::Csv => write!(output, "{comma}{number}")?,
                Form::JsonLines => write!(output, "{comma}\"{name}\":{number}")?,
            }
        }
        writeln!(output, "{close}")?;
    }
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_have_the_same_names_and_numbers() {
        let record = Record {
            came_ns: 1,
            answered_ns: 20,
            blocks_before: 3,
            blocks_after: 8,
            clients_before: 4,
            clients_after: 5,
        };
        let text = |form| {
            let mut bytes = Vec::new();
            write(&mut bytes, form, &[record]).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let csv = text(Form::Csv);
        assert_eq!(csv, "t1_ns,t2_ns,blocks1,blocks2,clients1,clients2\n1,20,3,8,4,5\n");
        let json: serde_json::Value = serde_json::from_str(&text(Form::JsonLines)).unwrap();
        let (names, numbers) = csv.trim().split_once('\n').unwrap();
        for (name, number) in names.split(',').zip(numbers.split(',')) {
            assert_eq!(json[name].to_string(), number, "{name}");
        }
    }

    #[test]
    fn the_name_says_the_form() {
        assert!("a/b.csv".parse::<RecordsFile>().is_ok());
        assert!("b.jsonl".parse::<RecordsFile>().is_ok());
        assert!("b.txt".parse::<RecordsFile>().is_err());
        assert!("csv".parse::<RecordsFile>().is_err());
    }
}
