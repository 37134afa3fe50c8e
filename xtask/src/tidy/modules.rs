//! The rule about the modules of one crate: none imports another one in a circle.
//!
//! Looked at are the top-level modules, each with all that is in its folder, and `crate::NAME` in
//! their production code. A folder whose `mod.rs` only names its modules is a *room*: its files are
//! modules by themselves. What the root exports again (`crate::Name`) is not followed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::source::{bracketed, first_word, offsets};
use super::{Source, Tree, Violation};

/// The modules that a module imports, each with the file and the line that does so first.
type Imports<'a> = BTreeMap<String, (&'a str, usize)>;

pub(crate) fn circles(tree: &Tree) -> Vec<Violation> {
    let packages: BTreeSet<&str> = tree.sources.iter().map(Source::package).collect();
    packages.into_iter().flat_map(|package| circles_in(tree, package)).collect()
}

fn circles_in(tree: &Tree, package: &str) -> Vec<Violation> {
    let sources: Vec<(&str, &Source)> = sources(tree, package).collect();
    let rooms: BTreeSet<&str> =
        sources.iter().filter_map(|(inside, source)| room(inside, source)).collect();
    let modules: BTreeSet<String> =
        sources.iter().filter_map(|(inside, _)| module(inside, &rooms)).collect();
    let mut graph: BTreeMap<String, Imports<'_>> = BTreeMap::new();
    for (inside, source) in &sources {
        let Some(module) = module(inside, &rooms) else { continue };
        for start in offsets(source.production(), "crate::") {
            let tail = &source.code[start + "crate::".len()..];
            for imported in imported(tail, &rooms) {
                if imported != module && modules.contains(&imported) {
                    let imports = graph.entry(module.clone()).or_default();
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
            if let Some(back) =
                back.filter(|back| back.iter().all(|other| *other >= module.as_str()))
            {
                let circle = [&[module.as_str()][..], &back].concat().join(" → ");
                let message =
                    format!("a circle of modules: {circle}; move what they share below both");
                found.push(Violation::new(*path, *line, message));
            }
        }
    }
    found
}

/// The production sources of a package, each with its path inside `src`; the root itself is none.
fn sources<'a>(tree: &'a Tree, package: &'a str) -> impl Iterator<Item = (&'a str, &'a Source)> {
    tree.sources.iter().filter(move |source| source.package() == package).filter_map(|source| {
        let (_, inside) = source.path.split_once("/src/")?;
        let first = inside.split('/').next()?.trim_end_matches(".rs");
        (!matches!(first, "lib" | "main" | "bin")).then_some((inside, source))
    })
}

/// The room that this file opens, if it is the `mod.rs` of one.
fn room<'a>(inside: &'a str, source: &Source) -> Option<&'a str> {
    let name = inside.strip_suffix("/mod.rs").filter(|name| !name.contains('/'))?;
    let names_a_module = |line: &str| {
        let declared = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub "));
        declared.unwrap_or(line).starts_with("mod ") && line.ends_with(';')
    };
    let mut lines = source.production().lines().map(str::trim).filter(|line| !line.is_empty());
    lines.all(names_a_module).then_some(name)
}

/// The module that a file belongs to: the first name of its path, or the first two in a room.
fn module(inside: &str, rooms: &BTreeSet<&str>) -> Option<String> {
    let mut names = inside.trim_end_matches(".rs").split('/');
    let first = names.next()?;
    if !rooms.contains(first) {
        return Some(first.to_owned());
    }
    names.next().filter(|second| *second != "mod").map(|second| format!("{first}::{second}"))
}

/// The modules that an import names after `crate::`: one, or those of a list in braces.
fn imported(tail: &str, rooms: &BTreeSet<&str>) -> Vec<String> {
    let of_part = |part: &str| -> Vec<String> {
        let first = first_word(part);
        let rest = part[first.len()..].strip_prefix("::").filter(|_| rooms.contains(first));
        match rest {
            None => vec![first.to_owned()],
            Some(rest) => {
                parts(rest).map(|part| format!("{first}::{}", first_word(part))).collect()
            }
        }
    };
    parts(tail).flat_map(of_part).collect()
}

/// What stands here: one path, or those of a list in braces.
fn parts(tail: &str) -> impl Iterator<Item = &str> {
    let list = tail.strip_prefix('{').map(|_| bracketed(tail));
    let is_list = list.is_some();
    let mut depth = 0;
    let parts = list.unwrap_or(tail).split(move |character: char| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        is_list && depth == 0 && character == ','
    });
    parts.map(str::trim_start)
}

/// The shortest way from one module to another, both ends included.
fn way<'a>(
    graph: &'a BTreeMap<String, Imports<'_>>,
    from: &'a str,
    to: &str,
) -> Option<Vec<&'a str>> {
    let mut ways = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::from([from]);
    while let Some(way) = ways.pop_front() {
        let last = way[way.len() - 1];
        if last == to {
            return Some(way);
        }
        for next in graph.get(last).into_iter().flat_map(|imports| imports.keys()) {
            if seen.insert(next) {
                ways.push_back([&way[..], &[next.as_str()]].concat());
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

    #[test]
    fn the_files_of_a_room_are_modules_by_themselves() {
        let room = "//! A room.\n\npub(crate) mod sys;\nmod lock;\n";
        let files = [
            ("kernel/mod.rs", room),
            ("kernel/sys.rs", ""),
            ("kernel/lock.rs", "use crate::show::stats;\n"),
            ("show/mod.rs", room),
            ("show/stats.rs", "use crate::kernel::{sys, user};\n"),
        ];
        assert_eq!(found(&files), []);
        let circle =
            [&files[..4], &[("show/stats.rs", "use crate::kernel::{sys, lock};\n")]].concat();
        let found = found(&circle);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].message.contains("kernel::lock → show::stats → kernel::lock"),
            "{found:?}"
        );
    }
}
