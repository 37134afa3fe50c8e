//! The pages of the architectures, made from the header of each architecture's file.
//!
//! A header has one sentence, a picture, and a paragraph with labels such as `What breaks first:`.
//! The page has a point for each label.

use crate::failure::{Failure, Result};

/// The folder of the pages.
pub(crate) const FOLDER: &str = "docs/architectures";

/// The page of an architecture, and the file with its header.
const PAGES: [(&str, &str); 11] = [
    ("iterative", "iterative.rs"),
    ("fork", "fork.rs"),
    ("prefork", "prefork.rs"),
    ("threads", "threads.rs"),
    ("pool", "pool.rs"),
    ("uthreads", "uthreads.rs"),
    ("event-loop", "event_loop.rs"),
    ("workpool", "workpool/mod.rs"),
    ("gcd", "gcd/mod.rs"),
    ("staged", "staged/mod.rs"),
    ("handwritten", "handwritten.rs"),
];

/// The labels of a header. Each page must have the first four.
const LABELS: [&str; 7] = [
    "What waits:",
    "Cost of a connection:",
    "What breaks first:",
    "When to choose it:",
    "Cost of a block:",
    "Cost of each stage:",
    "Source:",
];
const NEEDED: usize = 4;

/// Columns of a page.
const COLUMNS: usize = 100;

/// The pages, each with its path, in the order of the guide. The index comes first. `text_of` gives
/// the text of a source.
///
/// # Errors
///
/// Names the file that lacks its header or a part of it, and the missing part.
pub(crate) fn pages<'a>(
    text_of: impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<(String, String)>, (String, Failure)> {
    let mut index = String::from(INDEX);
    let mut made = Vec::new();
    for (name, file) in PAGES {
        let path = format!("crates/architectures/src/{file}");
        let Some(text) = text_of(&path) else {
            let missing = Failure::from("the file is missing");
            return Err((path, missing.remedy("mend PAGES in xtask/src/pages")));
        };
        let (title, page) = page(&path, text).map_err(|problem| (path, problem))?;
        index += &format!("| [{}]({name}.md) | {} |\n", title.0, title.1);
        made.push((format!("{FOLDER}/{name}.md"), page));
    }
    made.insert(0, (format!("{FOLDER}/README.md"), index));
    Ok(made)
}

const INDEX: &str =
    "<!-- Made by `cargo xtask guide`: change the headers in crates/architectures -->

# The architectures

Each page shows one architecture: its picture, what waits, what a connection costs, what breaks
first, and when to choose it. `duality architectures` lists them with what this machine can run.

Choose by measuring: `duality compare`. The pages say what to expect, and the report says what your
load does.

| architecture | what it is |
| --- | --- |
";

/// The names and the sentence of a header, and its page.
fn page(path: &str, text: &str) -> Result<((String, String), String)> {
    let header = text.lines().map_while(|line| line.strip_prefix("//!"));
    let header: Vec<&str> = header.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let blocks = blocks(&header);
    let first = blocks.first().ok_or("the file has no header")?;
    let (names, sentence) = first
        .split_once("`: ")
        .map(|(names, sentence)| (format!("{names}`"), sentence.to_owned()))
        .ok_or("the header must open with the architecture's name: \"`name`: what it is\"")?;
    let sentence = capital(&sentence);
    let mut page = format!(
        "<!-- Made by `cargo xtask guide` of a header: change it in\n{path} -->\n\n\
         # {names}\n\n{}\n",
        wrapped(&sentence, "")
    );
    for block in &blocks[1..] {
        page.push('\n');
        if block.starts_with("```") {
            page += block;
            page.push('\n');
        } else {
            page += &points(&without_paths(block));
        }
    }
    if let Some(missing) = LABELS[..NEEDED].iter().find(|label| !page.contains(&point(label))) {
        return Err(format!("the header lacks `{missing}`").into());
    }
    page += &format!("\nThe whole architecture is one file:\n[{path}](../../{path}).\n");
    Ok(((names, sentence), page))
}

/// The paragraphs, each on one line, and the pictures as they are.
fn blocks(lines: &[&str]) -> Vec<String> {
    let mut blocks = vec![String::new()];
    let mut in_fence = false;
    for line in lines {
        let last = blocks.last_mut().expect("there is always one");
        if line.starts_with("```") || in_fence {
            in_fence ^= line.starts_with("```");
            let separator = if last.is_empty() { "" } else { "\n" };
            *last += &format!("{separator}{line}");
        } else if line.is_empty() {
            blocks.push(String::new());
        } else {
            let separator = if last.is_empty() { "" } else { " " };
            *last += &format!("{separator}{line}");
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// A paragraph, or a list with a point for each label in it.
fn points(paragraph: &str) -> String {
    let mut starts: Vec<(usize, &str)> =
        LABELS.iter().filter_map(|label| Some((paragraph.find(label)?, *label))).collect();
    starts.sort_unstable();
    let end = starts.first().map_or(paragraph.len(), |(start, _)| *start);
    let mut text = String::new();
    if end > 0 {
        text += &format!("{}\n", wrapped(paragraph[..end].trim(), ""));
    }
    for (index, (start, label)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(paragraph.len(), |(next, _)| *next);
        let said = paragraph[start + label.len()..end].trim();
        text += &format!("{}\n", wrapped(&format!("{}{}", point(label), capital(said)), "  "));
    }
    text
}

fn point(label: &str) -> String {
    format!("- **{}** ", label.trim_end_matches(':').to_owned() + ".")
}

/// Replaces a link of rustdoc by its text: a page cannot follow the link.
fn without_paths(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](crate::") {
        kept += &before.replacen("[`", "`", 1);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    kept + rest
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + characters.as_str()
    })
}

/// The text in lines of [`COLUMNS`], all but the first indented.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always one");
        let is_first = last.trim().is_empty();
        if !is_first && last.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("{indent}{word}"));
        } else {
            let separator = if is_first { "" } else { " " };
            *last += &format!("{separator}{word}");
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "//! `fork`: a child\n//! each.\n//!\n//! ```text\n//!   [ a ]\n//! ```\n//!\n\
        //! It is [`pool`](crate::pool) of old.\n//!\n\
        //! What waits: each child. Cost of a connection: a process.\n\
        //! What breaks first: processes. When to choose it: seldom.\n\nfn f() {}\n";

    #[test]
    fn a_header_becomes_a_page() {
        let (title, page) = page("a.rs", HEADER).unwrap();
        assert_eq!(title, ("`fork`".into(), "A child each.".into()));
        let expected = "# `fork`\n\nA child each.\n\n```text\n  [ a ]\n```\n\n\
            It is `pool` of old.\n\n- **What waits.** Each child.\n\
            - **Cost of a connection.** A process.\n- **What breaks first.** Processes.\n\
            - **When to choose it.** Seldom.\n\nThe whole architecture is one file:\n";
        assert!(page.contains(expected), "{page}");
    }

    #[test]
    fn a_header_without_a_part_is_told() {
        let lacking = HEADER.replace("When to choose it", "Then");
        let problem = |text: &str| page("a.rs", text).unwrap_err().to_string();
        assert_eq!(problem(&lacking), "the header lacks `When to choose it:`");
        assert!(problem("//! no name\n").contains("must open"));
    }

    #[test]
    fn lines_are_wrapped() {
        let lines = wrapped(&"word ".repeat(40), "  ");
        assert!(lines.lines().all(|line| line.len() <= COLUMNS));
        assert!(lines.lines().nth(1).unwrap().starts_with("  word"));
    }
}
