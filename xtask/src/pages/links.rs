//! The links of Markdown: their places, their targets, and the anchors of a page.

use std::ops::Range;

/// One link of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// The place of the target in the text.
    pub(crate) at: Range<usize>,
    /// A path, with or without `#` and an anchor.
    pub(crate) target: &'a str,
}

impl<'a> Link<'a> {
    /// The path and the anchor; each may be empty.
    pub(crate) fn parts(&self) -> (&'a str, &'a str) {
        self.target.split_once('#').unwrap_or((self.target, ""))
    }
}

/// The text before a target. The last two openings are HTML, for pictures.
const OPENINGS: [(&str, char); 3] = [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')];

/// The links of `text` that lead to a file or a heading of this repository. Code has no links.
pub(crate) fn links(text: &str) -> Vec<Link<'_>> {
    let prose = without_code(text);
    let mut found = Vec::new();
    for (opening, closing) in OPENINGS {
        for (at, _) in prose.match_indices(opening) {
            let start = at + opening.len();
            let Some(length) = prose[start..].find(closing) else { continue };
            let target = &text[start..start + length];
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !is_elsewhere && !target.contains(char::is_whitespace) {
                found.push(Link { at: start..start + length, target });
            }
        }
    }
    found.sort_by_key(|link| link.at.start);
    found
}

/// The text with fenced and inline code turned into blanks of the same length in bytes.
fn without_code(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut in_fence = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if in_fence || is_fence {
            prose.push_str(&" ".repeat(line.len()));
        } else {
            // Every second part stands between two backticks.
            for (index, part) in line.split('`').enumerate() {
                if index > 0 {
                    prose.push(' ');
                }
                match index % 2 {
                    0 => prose.push_str(part),
                    _ => prose.push_str(&" ".repeat(part.len())),
                }
            }
        }
        in_fence ^= is_fence;
    }
    prose
}

/// The file that `path` in the page `from` names, relative to the workspace. `None` above the
/// workspace.
pub(crate) fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors that the headings of a page have, as GitHub and mdBook make them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut in_fence = false;
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_fence || heading == line || !heading.starts_with(' ') {
            continue;
        }
        let anchor = anchor(heading.trim());
        let twins = anchors.iter().filter(|other| **other == anchor).count();
        anchors.push(if twins == 0 { anchor } else { format!("{anchor}-{twins}") });
    }
    anchors
}

fn anchor(heading: &str) -> String {
    // Only the text of a link in a heading counts.
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown += before;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    shown += rest;
    let kept = shown.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code_only() {
        let text = "See [é](a.md#b), `[no](c)` and [web](https://x.org).\n\
                    ```\n[no](d)\n```\n<img src=\"e.png\">\n";
        let found: Vec<_> = links(text).iter().map(|link| link.target.to_owned()).collect();
        assert_eq!(found, ["a.md#b", "e.png"]);
        for link in links(text) {
            assert_eq!(&text[link.at.clone()], link.target);
        }
        assert_eq!(links(text)[0].parts(), ("a.md", "b"));
    }

    #[test]
    fn paths_are_relative_to_the_page() {
        assert_eq!(resolve("docs/decisions/a.md", "../../runs"), Some("runs".into()));
        assert_eq!(resolve("docs/a.md", "b.md"), Some("docs/b.md".into()));
        assert_eq!(resolve("README.md", "../b.md"), None);
    }

    #[test]
    fn headings_have_anchors() {
        let text = "# A `b`: *c*\n```\n# no\n```\n## Twice\n## Twice\n### [x](y.md) & z\n";
        assert_eq!(anchors(text), ["a-b-c", "twice", "twice-1", "x--z"]);
    }
}
