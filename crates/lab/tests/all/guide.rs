//! docs/report.md explains each sentence that a screen can say, and no sentence that it cannot say.

use std::fs;
use std::path::Path;

use duality_lab::tell::phrases::Phrase;

/// The first cells of the guide's tables of sentences, which have the heading `it says`.
fn rows() -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.md");
    let text = fs::read_to_string(guide).unwrap();
    let mut is_told = false;
    let mut rows = Vec::new();
    for line in text.lines() {
        let cell = line.strip_prefix("| ").and_then(|rest| Some(rest.split_once(" | ")?.0));
        match cell {
            Some("it says") => is_told = true,
            Some("---") => {}
            Some(cell) if is_told => rows.push(cell.to_owned()),
            Some(_) => {}
            None => is_told = false,
        }
    }
    rows
}

#[test]
fn each_sentence_has_a_row_and_each_row_a_sentence() {
    let rows = rows();
    for phrase in Phrase::ALL {
        let found = rows.iter().any(|row| phrase.is_in(row));
        assert!(found, "docs/report.md has no row for: {}", phrase.template());
    }
    for row in &rows {
        let found = Phrase::ALL.iter().any(|phrase| phrase.is_in(row));
        assert!(found, "no screen says what docs/report.md explains: {row}");
    }
}
