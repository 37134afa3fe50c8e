//! The rule about plain English: short sentences, and no word for a person in place of code.
//!
//! The rule looks at the paragraphs of Markdown and at the comments of Rust, C and C++. Code,
//! tables, headings and diagrams are not prose. `xtask/plain.txt` says how many places a file may
//! have: a file that is not listed has none. The numbers only fall. `cargo xtask tidy --shrink`
//! lowers them to the present numbers. That command also fills an empty list.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::tree::{PLAIN_LIST, Page};
use super::{Tree, Violation};

/// The most words of a sentence.
const MOST_WORDS: usize = 25;

/// Words for people. Code is "it", "the caller", "the task".
const OF_PEOPLE: [&str; 6] = ["who", "whom", "whose", "whoever", "nobody", "somebody"];

/// The most places that a message names.
const SHOWN: usize = 10;

/// A sentence that is too long, or has a word for people.
#[derive(Debug, PartialEq, Eq)]
struct Sentence {
    /// The line in which its paragraph begins.
    line: usize,
    what: String,
}

pub(crate) fn plain(tree: &Tree) -> Vec<Violation> {
    let mut found = places(tree);
    let allowed = listed(&tree.plain_list);
    for path in allowed.keys() {
        found.entry(*path).or_default();
    }
    let checked = found.into_iter().filter_map(|(path, places)| {
        let allowed = allowed.get(path).copied().unwrap_or(0);
        let message = complaint(&places, allowed)?;
        Some(Violation::new(path, 0, message))
    });
    checked.collect()
}

fn complaint(places: &[Sentence], allowed: usize) -> Option<String> {
    let count = places.len();
    if count < allowed {
        return Some(format!(
            "lower the number to {count} in {PLAIN_LIST}: cargo xtask tidy --shrink"
        ));
    }
    if count == allowed {
        return None;
    }
    let mut message = format!("{count} places are not plain English, {allowed} may be:");
    for Sentence { line, what } in places.iter().take(SHOWN) {
        let _ = write!(message, " line {line}: {what};");
    }
    let rest = count.saturating_sub(SHOWN);
    if rest > 0 {
        let _ = write!(message, " and {rest} more;");
    }
    message += " write shorter sentences, and name the code that is meant";
    Some(message)
}

/// The list, with each number lowered to the present number. An empty list becomes the list of all
/// present places.
pub(crate) fn shrunk(tree: &Tree) -> String {
    let found = places(tree);
    let allowed = listed(&tree.plain_list);
    let mut list = String::from(
        "# Places that are not plain English, for each file: the rule `plain` of `cargo xtask tidy`.\n\
         # A number may only fall. `cargo xtask tidy --shrink` lowers it to what is there.\n",
    );
    for (path, places) in found {
        let count = match allowed.get(path) {
            Some(allowed) => places.len().min(*allowed),
            None if allowed.is_empty() => places.len(),
            None => 0,
        };
        if count > 0 {
            let _ = writeln!(list, "{path} {count}");
        }
    }
    list
}

/// The number for each file in a list.
fn listed(list: &str) -> BTreeMap<&str, usize> {
    let entries = list.lines().filter(|line| !line.starts_with('#'));
    entries
        .filter_map(|line| {
            let (path, count) = line.rsplit_once(' ')?;
            Some((path, count.parse().ok()?))
        })
        .collect()
}

/// The places of each file that has at least one.
fn places(tree: &Tree) -> BTreeMap<&str, Vec<Sentence>> {
    let sources = tree.sources.iter().map(|source| (&source.path, source.text.as_str(), false));
    let natives = tree.natives.iter().map(|native| (&native.path, native.text.as_str(), false));
    let pages = tree.pages.iter().map(|page| (&page.path, current(page), true));
    let files = sources.chain(natives).chain(pages);
    files
        .map(|(path, text, is_page)| (path.as_str(), places_in(text, is_page)))
        .filter(|(_, places)| !places.is_empty())
        .collect()
}

/// The part of a page that is still edited: the newest section of the changelog.
fn current(page: &Page) -> &str {
    let mut sections = page.text.match_indices("\n## ").map(|(at, _)| at);
    match sections.nth(1) {
        Some(second) if page.path == "CHANGELOG.md" => &page.text[..second],
        _ => &page.text,
    }
}

fn places_in(text: &str, is_page: bool) -> Vec<Sentence> {
    let mut places = Vec::new();
    for (line, paragraph) in paragraphs(text, is_page) {
        for sentence in sentences(&without_code(&paragraph)) {
            let words = sentence.split(|character| !is_of_word(character));
            let count = words.filter(|word| !word.is_empty()).count();
            if count > MOST_WORDS {
                places.push(Sentence { line, what: format!("{count} words") });
            }
            if let Some(word) = word_for_people(&sentence) {
                places.push(Sentence { line, what: format!("`{word}`") });
            }
        }
    }
    places
}

/// The paragraphs of prose, each with its first line.
fn paragraphs(text: &str, is_page: bool) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let mut in_fence = false;
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        let body = if is_page { Some(line) } else { comment(line) };
        let body = body.unwrap_or_default();
        if body.trim_start().starts_with("```") {
            in_fence = !in_fence;
            is_open = false;
            continue;
        }
        let is_prose = !in_fence
            && match is_page {
                true => !body.starts_with(['|', '#']) && !body.starts_with("    "),
                false => !is_drawn(body),
            };
        let item = after_bullet(body.trim());
        is_open &= item.is_none();
        let words = item.unwrap_or_else(|| body.trim());
        if !is_prose || words.is_empty() {
            is_open = false;
            continue;
        }
        match paragraphs.last_mut().filter(|_| is_open) {
            Some((_, paragraph)) => {
                paragraph.push(' ');
                paragraph.push_str(words);
            }
            None => paragraphs.push((index + 1, words.to_owned())),
        }
        is_open = true;
    }
    paragraphs
}

/// Whether a line of a comment belongs to a table or a diagram.
fn is_drawn(body: &str) -> bool {
    body.trim_start().starts_with('|') || body.contains(['│', '─', '┌', '└', '▶', '▼'])
}

/// The text of a line that is only a comment, in Rust, C or C++.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("//") {
        return Some(rest.strip_prefix(['/', '!']).unwrap_or(rest));
    }
    line.strip_prefix('*').filter(|rest| rest.starts_with(char::is_whitespace))
}

/// The text of an item of a list.
fn after_bullet(line: &str) -> Option<&str> {
    let marked = match line.strip_prefix(['-', '*']) {
        Some(rest) => rest,
        None => {
            let rest = line.trim_start_matches(|character: char| character.is_ascii_digit());
            rest.strip_prefix('.').filter(|_| rest.len() < line.len())?
        }
    };
    marked.starts_with(char::is_whitespace).then(|| marked.trim_start())
}

/// The text with `X` for code, and without the targets of links.
fn without_code(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("](") {
        let (before, target) = rest.split_at(at + 1);
        plain += before;
        rest = target.find(')').map_or("", |end| &target[end + 1..]);
    }
    plain += rest;
    let mut parts = plain.split('`');
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(after) => text = text + "X" + after,
            // No backtick closes the code.
            None => text = text + "`" + code,
        }
    }
    text
}

/// The sentences: each sentence ends before a space with a capital letter or a mark of Markdown
/// after it.
fn sentences(text: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        let next = text[at..].trim_start().chars().next();
        let begins = |next: char| next.is_ascii_uppercase() || "`*[".contains(next);
        if character.is_whitespace() && ".!?".contains(before) && next.is_some_and(begins) {
            sentences.push(String::new());
        } else if let Some(sentence) = sentences.last_mut() {
            sentence.push(character);
        }
        before = character;
    }
    sentences
}

fn is_of_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || "'’_-".contains(character)
}

fn word_for_people(sentence: &str) -> Option<&'static str> {
    let mut words = sentence.split(|it: char| !it.is_alphanumeric() && it != '_');
    words.find_map(|word| OF_PEOPLE.into_iter().find(|of| word.eq_ignore_ascii_case(of)))
}

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::*;

    fn tree(sources: &[(&str, &str)], list: &str) -> Tree {
        let source = |(path, text): &(&str, &str)| Source::new(*path, *text);
        let sources = sources.iter().map(source).collect();
        Tree { sources, plain_list: list.to_owned(), ..Tree::sample() }
    }

    fn lines(text: &str, is_page: bool) -> Vec<(usize, String)> {
        places_in(text, is_page).into_iter().map(|place| (place.line, place.what)).collect()
    }

    #[test]
    fn long_sentences_and_words_for_people_are_found() {
        let long = "one ".repeat(26);
        let text = format!("//! Short. Whoever\n//! calls.\n\nlet a = 1; // {long}\n/// {long}\n");
        assert_eq!(lines(&text, false), [(1, "`whoever`".into()), (5, "26 words".into())]);
        assert_eq!(lines(&format!(" * {long}\n *{long}\n"), false), [(1, "26 words".into())]);
    }

    #[test]
    fn code_tables_headings_and_targets_are_not_prose() {
        let long = "one ".repeat(26);
        for text in [
            format!("```sh\n{long}\n```\n"),
            format!("| {long} |\n# {long}\n    {long}\n"),
            format!("A `{long}` and [b]({long}).\n"),
        ] {
            assert_eq!(lines(&text, true), [], "{text}");
        }
        assert_eq!(lines(&format!("// ```\n// {long}\n// ```\n// a ─▶ {long}\n"), false), []);
        assert_eq!(lines(&format!("//! | {long} |\n//! | {long} |\n"), false), []);
    }

    #[test]
    fn items_and_sentences_are_counted_by_themselves() {
        let half = "one ".repeat(20);
        for text in [
            format!("- {half}\n- {half}\n2. {half}\n"),
            format!("{half}\n\n{half}\n"),
            format!("{half}end. And\n{half}\n"),
        ] {
            assert_eq!(lines(&text, true), [], "{text}");
        }
        assert_eq!(lines(&format!("/// - {half}\n/// - {half}\n"), false), []);
        assert_eq!(lines(&format!("a\n\n{half}\n{half}\n"), true), [(3, "40 words".into())]);
    }

    #[test]
    fn a_number_may_only_fall() {
        let two = [("xtask/src/a.rs", "// nobody\n\n// somebody\n")];
        let told = |list: &str| -> Vec<String> {
            plain(&tree(&two, list)).into_iter().map(|violation| violation.message).collect()
        };
        assert_eq!(told("# list\nxtask/src/a.rs 2\n"), [""; 0]);
        assert!(told("xtask/src/a.rs 1\n")[0].starts_with("2 places are not plain English, 1 may"));
        assert!(told("")[0].contains("line 3: `somebody`"));
        assert!(told("xtask/src/a.rs 3\n")[0].starts_with("lower the number to 2"));
        assert!(told("xtask/src/a.rs 2\ngone.md 1\n")[0].starts_with("lower the number to 0"));
    }

    #[test]
    fn the_list_shrinks_and_does_not_grow() {
        let files = [("a.rs", "// who\n"), ("b.rs", "// who\n\n// who\n"), ("c.rs", "// who\n")];
        let shrunk = |list: &str| {
            let list = super::shrunk(&tree(&files, list));
            listed(&list).into_iter().map(|(path, count)| format!("{path} {count}")).collect()
        };
        let lowered: Vec<String> = shrunk("a.rs 3\nb.rs 1\ngone.rs 4\n");
        assert_eq!(lowered, ["a.rs 1", "b.rs 1"]);
        assert_eq!(shrunk(""), ["a.rs 1", "b.rs 2", "c.rs 1"]);
    }

    #[test]
    fn old_entries_of_the_changelog_stay() {
        let page = |path: &str| Page {
            path: path.into(),
            text: "# Changelog\n\n## New\n\nnobody\n\n## Old\n\nnobody\n".into(),
        };
        let tree = Tree { pages: vec![page("CHANGELOG.md"), page("a.md")], ..Tree::sample() };
        let counts: Vec<usize> = places(&tree).values().map(Vec::len).collect();
        assert_eq!(counts, [1, 2]);
    }
}
