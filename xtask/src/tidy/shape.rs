//! Rules about the shape of one file: how it opens, how long it and its functions are.

use super::source::line_of;
use super::{Source, Tree, Violation};

/// Lines before the tests. Longer files hide a second idea.
const FILE_LINES: usize = 500;

/// Lines from `fn` to the closing brace. What does not fit on a screen is not read in one piece.
const FUNCTION_LINES: usize = 70;

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

pub(crate) fn function_length(tree: &Tree) -> Vec<Violation> {
    let too_long = |source: &Source| {
        let long =
            source.functions().into_iter().filter(|function| function.lines > FUNCTION_LINES);
        long.map(|function| {
            let (name, lines) = (function.name, function.lines);
            let message = format!(
                "`{name}` has {lines} lines, {FUNCTION_LINES} at most: name its parts as functions"
            );
            Violation::new(&source.path, function.line, message)
        })
        .collect::<Vec<_>>()
    };
    tree.sources.iter().flat_map(too_long).collect()
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

    #[test]
    fn a_long_function_is_named_with_its_line() {
        let body = "    f();\n".repeat(FUNCTION_LINES - 2);
        assert_eq!(function_length(&tree(&format!("fn fits() {{\n{body}}}\n"))), []);
        let found = function_length(&tree(&format!("\nfn long() {{\n{body}\n}}\n")));
        assert_eq!((found[0].line, found[0].message.starts_with("`long` has 71 lines")), (2, true));
    }
}
