//! Rules about the guide: its links, its table of contents, the generated pages, and the quoted
//! messages.

use super::tree::Page;
use super::{Tree, Violation};
use crate::pages::architectures;
use crate::pages::links::{Link, anchors, links, resolve};

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The page with headings that quote messages.
const TROUBLESHOOTING: &str = "docs/troubleshooting.md";
/// The least letters in a row that a message must have, so that it can be found.
const LEAST_QUOTED: usize = 8;

/// A relative link leads to a file, and its anchor to a heading.
pub(crate) fn links_lead_somewhere(tree: &Tree) -> Vec<Violation> {
    let of_page = |page: &Page| {
        let broken = links(&page.text).into_iter().filter_map(|link| {
            let why = why_broken(tree, page, &link)?;
            let line = page.text[..link.at.start].lines().count();
            Some(Violation::new(&page.path, line, format!("`{}`: {why}", link.target)))
        });
        broken.collect::<Vec<_>>()
    };
    tree.pages.iter().flat_map(of_page).collect()
}

fn why_broken(tree: &Tree, page: &Page, link: &Link<'_>) -> Option<String> {
    let (path, anchor) = link.parts();
    let file = match path {
        "" => page.path.clone(),
        path => match resolve(&page.path, path) {
            Some(file) => file,
            None => return Some("the link leaves the repository: write the whole address".into()),
        },
    };
    if !tree.files.contains(&file) {
        return Some(format!("there is no {file}"));
    }
    let target = tree.pages.iter().find(|page| page.path == file)?;
    let is_there = anchor.is_empty() || anchors(&target.text).iter().any(|one| one == anchor);
    (!is_there).then(|| format!("{file} has no such heading"))
}

/// Every page beneath docs/ is in the table of contents.
pub(crate) fn summary(tree: &Tree) -> Vec<Violation> {
    let Some(summary) = tree.pages.iter().find(|page| page.path == SUMMARY) else {
        return Vec::new();
    };
    let named = links(&summary.text).into_iter();
    let named: Vec<String> = named.filter_map(|link| resolve(SUMMARY, link.parts().0)).collect();
    let pages = tree.pages.iter().filter(|page| page.path.starts_with("docs/"));
    let missing = pages.filter(|page| page.path != SUMMARY && !named.contains(&page.path));
    missing
        .map(|page| Violation::new(&page.path, 0, format!("add the page to {SUMMARY}")))
        .collect()
}

/// The pages of the architectures match the headers.
pub(crate) fn architecture_pages(tree: &Tree) -> Vec<Violation> {
    if !tree.pages.iter().any(|page| page.path.starts_with(architectures::FOLDER)) {
        return Vec::new();
    }
    let made = match architectures::pages(|path| tree.text_of(path)) {
        Ok(made) => made,
        Err((path, problem)) => return vec![Violation::new(path, 1, problem.to_string())],
    };
    let is_current = |path: &str, text: &str| {
        tree.pages.iter().any(|page| page.path == path && page.text == text)
    };
    made.into_iter()
        .filter(|(path, text)| !is_current(path, text))
        .map(|(path, _)| Violation::new(path, 0, "make the page anew: cargo xtask guide"))
        .collect()
}

/// Each message that the page about symptoms quotes is in a source.
pub(crate) fn quotes(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.pages.iter().find(|page| page.path == TROUBLESHOOTING) else {
        return Vec::new();
    };
    let rust = tree.sources.iter().filter(|source| source.package() != "xtask");
    let sources = rust.map(|source| source.text.as_str());
    let sources = sources.chain(tree.natives.iter().map(|native| native.text.as_str()));
    let sources: Vec<String> = sources.map(joined).collect();
    let mut gone = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let Some(heading) = line.strip_prefix("### ").filter(|rest| rest.starts_with('`')) else {
            continue;
        };
        // A message that contains a backtick is quoted by two backticks.
        let quote = heading.trim_matches('`').trim();
        if quote.chars().filter(|character| *character != '…').count() < LEAST_QUOTED {
            let short = format!("`{quote}` is too short to be found: quote more of the message");
            gone.push(Violation::new(&page.path, index + 1, short));
        } else if !sources.iter().any(|source| has(source, quote)) {
            let message = format!("no source has the message `{quote}`: quote it as it is now");
            gone.push(Violation::new(&page.path, index + 1, message));
        }
    }
    gone
}

/// A source, with strings over several lines joined.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

/// Whether one line of `source` has the parts of `quote` between `…`, in their order.
fn has(source: &str, quote: &str) -> bool {
    let mut parts = quote.split('…').map(str::trim).filter(|part| !part.is_empty());
    let Some(first) = parts.next() else { return false };
    let rest: Vec<&str> = parts.collect();
    source.match_indices(first).any(|(at, _)| {
        let mut line = source[at..].lines().next().unwrap_or_default();
        line = &line[first.len()..];
        rest.iter().all(|part| match line.find(part) {
            Some(at) => {
                line = &line[at + part.len()..];
                true
            }
            None => false,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.into(), text: text.into() }
    }

    fn tree(pages: Vec<Page>) -> Tree {
        let files = pages.iter().map(|page| page.path.clone()).collect();
        Tree { pages, files, ..Tree::sample() }
    }

    #[test]
    fn a_link_needs_its_file_and_its_heading() {
        let text = "# Top\n\n[a](b.md) [b](b.md#here) [c](c.md) [d](b.md#there) [e](#top)\n";
        let tree = tree(vec![page("docs/a.md", text), page("docs/b.md", "## Here\n")]);
        let found: Vec<String> =
            links_lead_somewhere(&tree).iter().map(ToString::to_string).collect();
        let expected = [
            "docs/a.md:3: `c.md`: there is no docs/c.md",
            "docs/a.md:3: `b.md#there`: docs/b.md has no such heading",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn every_page_is_in_the_table_of_contents() {
        let tree = tree(vec![
            page(SUMMARY, "- [a](a.md)\n"),
            page("docs/a.md", ""),
            page("docs/b.md", ""),
        ]);
        let found = summary(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "docs/b.md");
    }

    #[test]
    fn a_page_that_was_changed_by_hand_is_told() {
        let tree = tree(vec![page("docs/architectures/fork.md", "mine\n")]);
        assert!(architecture_pages(&tree)[0].message.contains("is missing"));
    }

    #[test]
    fn a_quote_must_stand_in_a_source() {
        let text = "### `processor … is not there`\n### `no longer said here`\n### `short`\n";
        let source = "fn f() { format!(\"processor {n} \\\n    is not there\") }\n";
        let sources = vec![Source::new("crates/a/src/lib.rs", source)];
        let tree = Tree { sources, ..tree(vec![page(TROUBLESHOOTING, text)]) };
        let lines: Vec<usize> = quotes(&tree).iter().map(|violation| violation.line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
