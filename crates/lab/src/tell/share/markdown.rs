//! A card as Markdown: what one pastes into a pull request.

use super::Share;
use crate::tell::render::markdown::{plain, table_markdown};
use crate::tell::sheet::{Cell, Table, Tone};

impl Share {
    /// The card as Markdown.
    pub fn markdown(&self) -> String {
        let Self { title, headline, alarms, map, key, machine, command, hash } = self;
        let alarms: String = alarms.iter().map(|told| format!("> {}\n\n", plain(told))).collect();
        // Command lines have no fence that is longer.
        format!(
            "**{}**\n\n{alarms}{}\n{}\n\n```sh\n{}\n```\n\n{}: {}.\nData: SHA-256 `{hash}` of \
             results.jsonl.\n",
            plain(headline),
            table_markdown(&heat(map)),
            plain(&sentences(key)),
            command.replace("```", "` ` `"),
            plain(title),
            plain(machine),
        )
    }
}

/// The key as sentences.
fn sentences(key: &[String]) -> String {
    let sentence = |told: &String| {
        let mut letters = told.chars();
        let first = letters.next().map_or(String::new(), |first| first.to_uppercase().to_string());
        let end = if told.ends_with('.') { "" } else { "." };
        first + letters.as_str() + end
    };
    key.iter().map(sentence).collect::<Vec<String>>().join(" ")
}

/// The map with a square of its colour in each cell: Markdown has no colours.
fn heat(map: &Table) -> Table {
    let cell = |(place, cell): (usize, &Cell)| match place {
        0 => cell.clone(),
        _ => format!("{} {}", square(cell.tone), cell.text).into(),
    };
    let rows = map.rows.iter().map(|row| row.iter().enumerate().map(cell).collect());
    Table { rows: rows.collect(), ..map.clone() }
}

fn square(tone: Tone) -> char {
    match tone {
        Tone::Best | Tone::Good => '🟩',
        Tone::Strong => '🟦',
        Tone::Heat(..=2) => '🟨',
        Tone::Heat(3) => '🟧',
        Tone::Heat(_) | Tone::Bad => '🟥',
        Tone::Plain | Tone::Soft | Tone::Unsure | Tone::Out => '⬜',
    }
}
