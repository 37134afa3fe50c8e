//! An answer on a card, for a pull request or a talk: headline, map, machine, command, and a hash
//! of the data.
//!
//! A card is Markdown or SVG. A PNG is the SVG in an installed Chromium. A renderer in Rust takes
//! some forty crates more, and fonts, which servers rarely have.

mod markdown;
mod png;
mod svg;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, io};

use crate::format::sha256;
use crate::page::write_whole;
use crate::tell::answer::Answer;
use crate::tell::map::Map;
use crate::tell::report::origin;
use crate::tell::sheet::Table;

/// The content of a card.
pub struct Share {
    /// What was compared.
    title: String,
    headline: String,
    /// Alarms, such as subjects that are out for wrong replies.
    alarms: Vec<String>,
    map: Table,
    /// What the map's figures, marks and crossings mean.
    key: Vec<String>,
    /// The machine and the version.
    machine: String,
    command: String,
    /// The hash of the results file.
    hash: String,
}

/// The file of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardFile {
    path: PathBuf,
    form: Form,
}

/// The form of a card, by the ending of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Markdown,
    Svg,
    Png,
}

impl FromStr for CardFile {
    type Err = String;

    fn from_str(path: &str) -> Result<Self, String> {
        let path = PathBuf::from(path);
        let form = match path.extension().and_then(|ending| ending.to_str()) {
            Some("md") => Form::Markdown,
            Some("svg") => Form::Svg,
            Some("png") => Form::Png,
            _ => return Err("end the name in .md, .svg or .png".to_owned()),
        };
        Ok(Self { path, form })
    }
}

impl CardFile {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the card.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written, or if a PNG is asked for and there is no Chromium.
    pub fn write(&self, share: &Share) -> io::Result<()> {
        match self.form {
            Form::Markdown => write_whole(&self.path, &share.markdown()),
            Form::Svg => write_whole(&self.path, &share.svg().text),
            Form::Png => write_whole(&self.path, &png::of(&share.svg())?),
        }
    }
}

impl Share {
    /// The card of an answer, of the records in `results`.
    ///
    /// # Errors
    ///
    /// Fails if the results cannot be read again.
    pub fn of(answer: &Answer<'_>, results: &Path) -> io::Result<Self> {
        let Answer { heading, summary, recommendation, .. } = answer;
        let map = Map::of(summary);
        let (marks, loads) = (map.key(summary), summary.counted.noun());
        let of = if heading.design.architectures.is_empty() { "" } else { " service under" };
        let mut key = vec![format!("{}, by the number of {loads}", map.title)];
        key.extend((!marks.is_empty()).then_some(marks));
        key.extend(recommendation.crossovers.iter().map(|one| one.tell(summary)));
        let [machine, command] = origin(heading);
        let partial = summary.partial().into_iter().map(|partial| partial.to_string());
        Ok(Self {
            title: format!("{}{of} {}", heading.design.service, heading.design.compared()),
            headline: recommendation.headline.clone(),
            alarms: partial.chain(recommendation.alarms.clone()).collect(),
            map: map.table(usize::MAX),
            key,
            machine,
            command,
            hash: sha256(&fs::read(results)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_is_the_form() {
        let form = |path: &str| path.parse::<CardFile>().map(|card| card.form);
        assert_eq!(form("card.md"), Ok(Form::Markdown));
        assert_eq!(form("a.b/card.svg"), Ok(Form::Svg));
        assert_eq!(form("card.png"), Ok(Form::Png));
        for path in ["card.gif", "card", ".md", "png"] {
            assert!(form(path).unwrap_err().contains(".md, .svg or .png"), "{path}");
        }
    }
}
