//! `cargo xtask tidy`: the house rules that no compiler, formatter or lint checks.
//!
//! A rule is one line in [`RULES`], and one function from the tree to its violations. Each module
//! has the rules about one subject:
//!
//! ```text
//!   shape    a file: how it opens, how long and wide it is      modules   the modules of a crate
//!   words    words that must not stand in some files            crates    crates and the workspace
//!   plain    prose                                             guide     links, pages that are made
//!   layers   the folders of a crate in layers
//! ```
//!
//! Rules see a [`Tree`], never the disk: each rule is tested on a few lines of text. A file that
//! must break a rule stands in [`EXCEPTIONS`] with its reason. An exception that nothing needs is
//! an error too.

mod crates;
mod guide;
mod layers;
mod modules;
mod plain;
mod shape;
mod source;
mod tree;
mod words;

use std::fmt;

pub(crate) use plain::shrunk;
pub(crate) use source::Source;
pub(crate) use tree::{PLAIN_LIST, Tree};

/// The files that may break a rule: the rule's name, the file's path, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    // Each of these exceptions goes away with the circle that it names.
    ("circles", "crates/runtime/src/event_loop/core/mod.rs", "its circle is being broken"),
    // This crate denies unsafe code outside one module.
    ("safe", "crates/tokio/src/lib.rs", "tokio watches foreign descriptors only by an unsafe call"),
];

/// One rule of the house.
pub(crate) struct Rule {
    /// The name of the rule in violations and exceptions.
    pub(crate) name: &'static str,
    /// The demand of the rule, in one line.
    pub(crate) demand: &'static str,
    check: fn(&Tree) -> Vec<Violation>,
}

/// Every rule, in the order of the report.
pub(crate) const RULES: &[Rule] = &[
    rule("header", "a Rust file opens with `//!`: what it is and how it is used", shape::header),
    rule("file-length", "a file has at most 500 lines before its tests", shape::file_length),
    rule("width", "comments and Markdown have at most 100 columns", shape::width),
    rule(
        "page-length",
        "README.md, ARCHITECTURE.md and docs/performance.md keep to their number of lines",
        shape::page_length,
    ),
    rule(
        "plain",
        "sentences have at most 25 words, and none for a person where code is meant; xtask/plain.txt lists the rest",
        plain::plain,
    ),
    rule("ignored", "no test is marked #[ignore]", words::ignored),
    rule("platform", "services and architectures have no platform #[cfg]", words::platform),
    rule(
        "quiet",
        "poller, fiber and the runtime's loop and worlds do without std's I/O, threads and sleeping",
        words::quiet,
    ),
    rule("port", "tests let the kernel choose ports", words::port),
    rule(
        "safe",
        "crates other than poller, fiber, runtime, architectures and engine forbid unsafe code",
        crates::safe,
    ),
    rule("direction", "dependencies between the crates point one way", crates::direction),
    rule("circles", "the modules of a crate do not import each other in circles", modules::circles),
    rule(
        "layers",
        "the folders of a crate whose lib.rs gives their order use only those beneath",
        layers::layers,
    ),
    rule(
        "manifest",
        "a crate has a description and the workspace's lints, a published one keywords and categories too",
        crates::manifest,
    ),
    rule("subject", "the subject of a commit has at most 72 characters", crates::subject),
    rule("readme", "README.md shows the two commands that a newcomer types", crates::readme),
    rule(
        "links",
        "a relative link of a page leads to a file, and its anchor to a heading",
        guide::links_lead_somewhere,
    ),
    rule("contents", "docs/SUMMARY.md names every page of docs/", guide::summary),
    rule(
        "made",
        "docs/architectures is what `cargo xtask guide` makes of the headers",
        guide::architecture_pages,
    ),
    rule("quotes", "docs/troubleshooting.md quotes messages that a source has", guide::quotes),
];

const fn rule(
    name: &'static str,
    demand: &'static str,
    check: fn(&Tree) -> Vec<Violation>,
) -> Rule {
    Rule { name, demand, check }
}

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) path: String,
    /// The line, from 1. 0 means the whole file.
    pub(crate) line: usize,
    /// The mistake, and the remedy.
    pub(crate) message: String,
}

impl Violation {
    pub(crate) fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Every violation of the rules about the guide.
pub(crate) fn check_guide(tree: &Tree) -> Vec<Violation> {
    let rules =
        [guide::links_lead_somewhere, guide::summary, guide::architecture_pages, guide::quotes];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}

/// Every violation in `tree` that no exception covers, each with the name of its rule.
pub(crate) fn check(tree: &Tree) -> Vec<(&'static str, Violation)> {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[(&str, &str, &str)]) -> Vec<(&'static str, Violation)> {
    let mut used = vec![false; exceptions.len()];
    let mut found = Vec::new();
    for rule in RULES {
        for violation in (rule.check)(tree) {
            match exceptions
                .iter()
                .position(|&(name, path, _)| name == rule.name && path == violation.path)
            {
                Some(index) => used[index] = true,
                None => found.push((rule.name, violation)),
            }
        }
    }
    for (&(name, path, reason), used) in exceptions.iter().zip(used) {
        if !used {
            let message = format!(
                "nothing here breaks the rule `{name}` any more: remove the exception from xtask/src/tidy/mod.rs"
            );
            found.push(("exceptions", Violation::new(path, 0, message)));
        } else if reason.is_empty() {
            let message = format!(
                "the exception to `{name}` gives no reason: add it in xtask/src/tidy/mod.rs"
            );
            found.push(("exceptions", Violation::new(path, 0, message)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn untidy() -> Tree {
        Tree {
            sources: vec![Source::new("crates/lab/src/plan.rs", "fn f() {}\n")],
            ..Tree::sample()
        }
    }

    #[test]
    fn a_tidy_tree_has_no_violation() {
        assert_eq!(check_with(&Tree::sample(), &[]), []);
    }

    #[test]
    fn an_exception_covers_its_rule_and_file_alone() {
        let tree = untidy();
        assert_eq!(check_with(&tree, &[]).len(), 1);
        assert_eq!(
            check_with(&tree, &[("header", "crates/lab/src/plan.rs", "it is generated")]),
            []
        );
        assert_eq!(
            check_with(&tree, &[("header", "crates/lab/src/cell.rs", "it is generated")]).len(),
            2
        );
    }

    #[test]
    fn an_exception_is_used_and_has_a_reason() {
        let unused = check_with(&Tree::sample(), &[("header", "a.rs", "it is generated")]);
        assert!(unused[0].1.message.contains("any more"));
        let unreasoned = check_with(&untidy(), &[("header", "crates/lab/src/plan.rs", "")]);
        assert!(unreasoned[0].1.message.contains("no reason"));
    }

    /// The guide for contributors lists each rule, word for word.
    #[test]
    fn the_guide_for_contributors_has_every_rule() {
        let guide = include_str!("../../../CONTRIBUTING.md");
        for rule in RULES {
            let line = format!("| `{}` | {} |", rule.name, rule.demand);
            assert!(guide.contains(&line), "CONTRIBUTING.md lacks the line {line}");
        }
    }
}
