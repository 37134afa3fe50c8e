//! `compare --resume --out DIR` without other flags: the results know the command that began them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use duality_lab::record::Record;

/// The command line to read. If the given words only resume a comparison, they stand after the
/// words that began it.
pub(super) fn words(given: Vec<OsString>) -> Vec<OsString> {
    let Some(out) = only_resumes(&given) else { return given };
    // The command itself says what is wrong with the directory.
    let Some(begun) = begun_by(&out) else { return given };
    joined(&given, &begun)
}

/// The directory of a comparison that is resumed without any word about its question.
fn only_resumes(given: &[OsString]) -> Option<PathBuf> {
    let words: Vec<&str> = given.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let ["compare", rest @ ..] = words.get(1..)? else { return None };
    let (mut resumes, mut out) = (false, None);
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.split_once('=') {
            None if *word == "--resume" => resumes = true,
            None if *word == "--out" => out = Some(*rest.next()?),
            None if *word == "--budget" => drop(rest.next()?),
            Some(("--out", directory)) => out = Some(directory),
            Some(("--budget", _)) => {}
            _ => return None,
        }
    }
    out.filter(|_| resumes).map(PathBuf::from)
}

/// The command line that began the results in a directory, or beneath it if a plan made them.
fn begun_by(out: &Path) -> Option<Vec<String>> {
    const NAME: &str = "results.jsonl";
    let of_plan = || {
        let mut beneath: Vec<PathBuf> =
            out.read_dir().ok()?.flatten().map(|entry| entry.path().join(NAME)).collect();
        beneath.sort();
        beneath.into_iter().find(|path| path.is_file())
    };
    let path = Some(out.join(NAME)).filter(|path| path.is_file()).or_else(of_plan)?;
    let mut first = String::new();
    BufReader::new(File::open(path).ok()?).read_line(&mut first).ok()?;
    match serde_json::from_str(&first).ok()? {
        Record::Experiment(heading) => Some(heading.command),
        Record::Cell(_) | Record::Block(_) | Record::Session(_) => None,
    }
}

/// The words that began an experiment, and then the given flags, which override them.
fn joined(given: &[OsString], begun: &[String]) -> Vec<OsString> {
    let begun = begun.get(1..).unwrap_or_default();
    // After `--`, words are not flags.
    let end = begun.iter().position(|word| word == "--").unwrap_or(begun.len());
    let (flags, rest) = begun.split_at(end);
    let flags = flags.iter().filter(|word| *word != "--resume").map(OsString::from);
    let program = given.iter().take(1).cloned();
    let added = given.iter().skip(2).cloned();
    program.chain(flags).chain(added).chain(rest.iter().map(OsString::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn only_a_resumption_without_a_question_takes_the_question_of_its_results() {
        for (line, out) in [
            ("duality compare --resume --out x", Some("x")),
            ("duality compare --out=x --resume --budget 5min", Some("x")),
            ("duality compare http --resume --out x", None),
            ("duality compare --out x", None),
            ("duality compare --resume", None),
            ("duality compare --resume --out", None),
            ("duality trial --resume --out x", None),
            ("duality", None),
        ] {
            assert_eq!(only_resumes(&os(line)), out.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn the_given_flags_come_after_those_that_began_it_and_before_its_command() {
        let begun = "/old/duality compare http -c 10 --out y --resume -- ab -n 5";
        let begun: Vec<String> = begun.split_whitespace().map(str::to_owned).collect();
        let found = joined(&os("duality compare --resume --out x"), &begun);
        assert_eq!(found, os("duality compare http -c 10 --out y --resume --out x -- ab -n 5"));
    }

    #[test]
    fn a_directory_without_results_changes_nothing() {
        let given = os("duality compare --resume --out /nonexistent/results");
        assert_eq!(words(given.clone()), given);
    }
}
