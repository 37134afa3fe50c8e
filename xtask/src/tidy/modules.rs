//! The rule about the modules of one crate: none imports another one in a circle.
//!
//! Looked at are the top-level modules, each with all that is in its folder, and `crate::NAME` in their production code. What the root
//! exports again (`crate::Name`) is not followed.

use std::collections::{BTreeMap, BTreeSet};

use super::source::first_word;
use super::{Tree, Violation};

/// The modules that a module imports, each with the file and the line that does so first.
type Imports<'a> = BTreeMap<&'a str, (&'a str, usize)>;

pub(crate) fn circles(tree: &Tree) -> Vec<Violation> {
    let packages: BTreeSet<&str> =
        tree.sources.iter().map(super::source::Source::package).collect();
    packages.into_iter().flat_map(|package| circles_in(tree, package)).collect()
}

fn circles_in(tree: &Tree, package: &str) -> Vec<Violation> {
    let modules: BTreeSet<&str> = sources(tree, package).map(|(module, _)| module).collect();
    let mut graph: BTreeMap<&str, Imports<'_>> = BTreeMap::new();
    for (module, source) in sources(tree, package) {
        for start in super::source::offsets(source.production(), "crate::") {
            let tail = &source.code[start + "crate::".len()..];
            for name in names(tail).filter(|name| *name != module) {
                if let Some(&imported) = modules.get(name) {
                    let imports = graph.entry(module).or_default();
                    imports.entry(imported).or_insert((&source.path, source.line(start)));
                }
            }
        }
    }
    let mut found = Vec::new();
    for (module, imports) in &graph {
        for (imported, (path, line)) in imports {
            // Each circle is reported once, where its first module in the order of names leaves.
            let back = way(&graph, imported, module);
            if let Some(back) = back.filter(|back| back.iter().all(|other| *other >= *module)) {
                let circle = [&[*module][..], &back].concat().join(" → ");
                let message =
                    format!("a circle of modules: {circle}; move what they share below both");
                found.push(Violation::new(*path, *line, message));
            }
        }
    }
    found
}

/// The production sources of a package, each with its top-level module; the root itself is none.
fn sources<'a>(
    tree: &'a Tree,
    package: &'a str,
) -> impl Iterator<Item = (&'a str, &'a super::Source)> {
    tree.sources.iter().filter(move |source| source.package() == package).filter_map(|source| {
        let (_, inside) = source.path.split_once("/src/")?;
        let module = inside.split('/').next()?.trim_end_matches(".rs");
        (!matches!(module, "lib" | "main" | "bin")).then_some((module, source))
    })
}

/// The first names after `crate::`: one, or those of a list in braces.
fn names(tail: &str) -> impl Iterator<Item = &str> {
    let list = tail.strip_prefix('{').map(|_| super::source::bracketed(tail));
    let mut depth = 0;
    let parts = list.unwrap_or(first_word(tail)).split(move |character: char| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        depth == 0 && character == ','
    });
    parts.map(|part| first_word(part.trim_start()))
}

/// The shortest way from one module to another, both ends included.
fn way<'a>(
    graph: &BTreeMap<&'a str, Imports<'a>>,
    from: &'a str,
    to: &str,
) -> Option<Vec<&'a str>> {
    let mut ways = std::collections::VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::from([from]);
    while let Some(way) = ways.pop_front() {
        let last = way[way.len() - 1];
        if last == to {
            return Some(way);
        }
        for next in graph.get(last).into_iter().flat_map(|imports| imports.keys()) {
            if seen.insert(next) {
                ways.push_back([&way[..], &[*next]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Source;

    fn found(files: &[(&str, &str)]) -> Vec<Violation> {
        let source =
            |(path, text): &(&str, &str)| Source::new(format!("crates/lab/src/{path}"), *text);
        circles(&Tree { sources: files.iter().map(source).collect(), ..Tree::sample() })
    }

    #[test]
    fn modules_that_import_each_other_are_found_with_the_way_back() {
        let found = found(&[
            ("plan/mod.rs", "use crate::{record::{Cell, Block}, units};\n"),
            ("record.rs", "use crate::text::told;\n"),
            ("text.rs", "\nfn f() { crate::plan::g() }\n"),
            ("units.rs", ""),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/lab/src/plan/mod.rs", 1));
        assert!(found[0].message.contains("plan → record → text → plan"), "{found:?}");
    }

    #[test]
    fn tests_and_the_root_may_use_everything() {
        let text = "use crate::record::Cell;\n";
        let test = "use crate::Cell;\n#[cfg(test)]\nmod tests {\n    use crate::plan::f;\n}\n";
        assert_eq!(
            found(&[("plan.rs", text), ("record.rs", test), ("lib.rs", "use crate::plan;\n")]),
            []
        );
    }
}
