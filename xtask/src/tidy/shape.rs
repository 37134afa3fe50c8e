//! Rules about the shape of one file: its opening, its length and its width.

use super::source::line_of;
use super::tree::Page;
use super::{Source, Tree, Violation};

/// The most lines before the tests. Longer files hide a second idea.
const FILE_LINES: usize = 500;

/// The most columns of prose. The eye does not take in wider lines at a glance.
const COLUMNS: usize = 100;

/// The most lines of the pages that are read first. A number only falls.
const PAGE_LINES: &[(&str, usize)] =
    &[("README.md", 120), ("ARCHITECTURE.md", 250), ("docs/performance.md", 200)];

pub(crate) fn header(tree: &Tree) -> Vec<Violation> {
    let headless = |source: &&Source| !source.text.starts_with("//!");
    tree.sources
        .iter()
        .filter(headless)
        .map(|source| {
            Violation::new(
                &source.path,
                1,
                "open the file with `//!`: what it is and how it is used",
            )
        })
        .collect()
}

pub(crate) fn file_length(tree: &Tree) -> Vec<Violation> {
    tree.sources
        .iter()
        .map(|source| (source, line_of(&source.text, source.tests_start()) - 1))
        .filter(|&(_, lines)| lines > FILE_LINES)
        .map(|(source, lines)| {
            let message = format!("{lines} lines before the tests, {FILE_LINES} at most: give the second idea a file of its own");
            Violation::new(&source.path, 0, message)
        })
        .collect()
}

pub(crate) fn page_length(tree: &Tree) -> Vec<Violation> {
    let too_long = |page: &Page| {
        let (_, most) = PAGE_LINES.iter().find(|(path, _)| *path == page.path)?;
        let lines = page.text.lines().count();
        let message = format!("{lines} lines, {most} at most: move details to a page of their own");
        (lines > *most).then(|| Violation::new(&page.path, 0, message))
    };
    tree.pages.iter().filter_map(too_long).collect()
}

/// Prose is at most as wide as the code. Diagrams, examples, tables and lines with a link may be
/// wider.
pub(crate) fn width(tree: &Tree) -> Vec<Violation> {
    let sources = tree.sources.iter().map(|source| (&source.path, &source.text, false));
    let pages = tree.pages.iter().map(|page| (&page.path, &page.text, true));
    sources.chain(pages).flat_map(|(path, text, is_page)| wide_lines(path, text, is_page)).collect()
}

fn wide_lines(path: &str, text: &str, is_page: bool) -> Vec<Violation> {
    let mut in_fence = false;
    let mut wide = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let prose = match is_page {
            true => Some(line),
            false => {
                line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']))
            }
        };
        let Some(prose) = prose.map(str::trim_start) else {
            in_fence = false;
            continue;
        };
        let is_fence = prose.starts_with("```");
        in_fence ^= is_fence;
        let may_be_wide = in_fence || is_fence || prose.starts_with(['|', '#', '[']);
        if !may_be_wide && line.chars().count() > COLUMNS && prose.contains(' ') {
            let message = format!("wider than {COLUMNS} columns: go on in the next line");
            wide.push(Violation::new(path, index + 1, message));
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Tree {
        Tree { sources: vec![Source::new("crates/lab/src/plan.rs", text)], ..Tree::sample() }
    }

    #[test]
    fn a_header_is_the_first_thing_in_the_file() {
        assert_eq!(header(&tree("//! A plan.\n")), []);
        assert_eq!(header(&tree("use std::io;\n//! A plan.\n")).len(), 1);
    }

    #[test]
    fn prose_has_a_hundred_columns_and_diagrams_have_more() {
        let long = "word ".repeat(20);
        let lines = |text: &str| -> Vec<usize> {
            width(&tree(text)).iter().map(|violation| violation.line).collect()
        };
        assert_eq!(lines(&format!("//! {long}\nfn f() {{}} // {long}\n    // {long}\n")), [1, 3]);
        assert_eq!(lines(&format!("// ```text\n// {long}\n// ```\n// | {long}\n")), []);
        let page =
            Page { path: "docs/a.md".into(), text: format!("{long}{long}\n| {long}{long}\n") };
        let found = width(&Tree { pages: vec![page], ..Tree::sample() });
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn the_first_page_has_few_lines() {
        let page = |path: &str, lines| Page { path: path.into(), text: "a\n".repeat(lines) };
        let (path, most) = PAGE_LINES[0];
        let pages = vec![page(path, most + 1), page("docs/a.md", most + 1)];
        let found = page_length(&Tree { pages, ..Tree::sample() });
        assert_eq!((found.len(), found[0].path.as_str()), (1, path));
        let pages = vec![page(path, most)];
        assert_eq!(page_length(&Tree { pages, ..Tree::sample() }), []);
    }

    #[test]
    fn tests_do_not_count_for_the_length_of_a_file() {
        let lines = "// x\n".repeat(FILE_LINES);
        assert_eq!(
            file_length(&tree(&format!("{lines}#[cfg(test)]\nmod tests {{\n{lines}}}\n"))),
            []
        );
        assert_eq!(
            file_length(&tree(&format!("{lines}// x\n#[cfg(test)]\nmod tests {{}}\n"))).len(),
            1
        );
    }
}
