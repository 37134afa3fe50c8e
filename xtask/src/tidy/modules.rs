//! The rule about the modules of one crate: no modules import each other in a circle.
//!
//! The rule looks at production code: each path that begins with `crate::`, `super::` or `self::`,
//! with everything in its braces. The modules of one folder make a graph, at every level of the
//! tree. A folder is one module in the graph above it. The code of a `mod.rs` belongs to its
//! folder, and the modules of the folder may use that code.
//!
//! A folder with a `mod.rs` that only names its modules is a *room*: each of its files is a module
//! of the graph above. The rule does not follow the re-exports of a `mod.rs` or a root.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::source::{bracketed, first_word, words};
use super::{Source, Tree, Violation};

/// The modules that a module imports, each with the file and the line of the first import.
type Imports<'a> = BTreeMap<String, (&'a str, usize)>;

/// The modules of one folder, and their imports of each other.
type Graph<'a> = BTreeMap<String, Imports<'a>>;

pub(crate) fn circles(tree: &Tree) -> Vec<Violation> {
    let packages: BTreeSet<&str> = tree.sources.iter().map(Source::package).collect();
    let modules = packages.into_iter().map(|package| Modules::of(tree, package));
    modules.flat_map(|modules| modules.circles()).collect()
}

/// The modules of a package.
struct Modules<'a> {
    /// The sources, each with the path of its module.
    sources: Vec<(Vec<&'a str>, &'a Source)>,
    /// The paths of all modules.
    paths: BTreeSet<Vec<&'a str>>,
    /// The paths of the rooms.
    rooms: BTreeSet<Vec<&'a str>>,
}

impl<'a> Modules<'a> {
    fn of(tree: &'a Tree, package: &str) -> Self {
        let mut all = Self { sources: Vec::new(), paths: BTreeSet::new(), rooms: BTreeSet::new() };
        for source in tree.sources.iter().filter(|source| source.package() == package) {
            let Some((_, inside)) = source.path.split_once("/src/") else { continue };
            let mut path: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
            // The root itself is no module of a graph.
            if source.is_test() || matches!(path[0], "lib" | "main" | "bin") {
                continue;
            }
            if path.last() == Some(&"mod") {
                path.pop();
                if only_names_modules(source) {
                    all.rooms.insert(path.clone());
                }
            }
            all.paths.extend((1..=path.len()).map(|length| path[..length].to_vec()));
            all.sources.push((path, source));
        }
        all
    }

    fn circles(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for graph in self.graphs().values() {
            for (module, imports) in graph {
                for (imported, (path, line)) in imports {
                    // Each circle is reported once, at the import of its alphabetically first
                    // module.
                    let back = way(graph, imported, module);
                    if let Some(back) =
                        back.filter(|back| back.iter().all(|other| *other >= module.as_str()))
                    {
                        let circle = [&[module.as_str()][..], &back].concat().join(" → ");
                        let message = format!(
                            "a circle of modules: {circle}; move what they share below both"
                        );
                        found.push(Violation::new(*path, *line, message));
                    }
                }
            }
        }
        found
    }

    /// The graph of each folder.
    fn graphs(&self) -> BTreeMap<String, Graph<'a>> {
        let mut graphs: BTreeMap<String, Graph<'a>> = BTreeMap::new();
        for (module, source) in &self.sources {
            let own = self.places(module);
            for (offset, path) in imported(module, source) {
                let theirs = self.places(self.module_of(&path));
                for (folder, node) in &own {
                    let Some((_, other)) = theirs.iter().find(|(theirs, _)| theirs == folder)
                    else {
                        continue;
                    };
                    if other != node {
                        let graph = graphs.entry(folder.clone()).or_default();
                        let imports = graph.entry(node.clone()).or_default();
                        let place = (source.path.as_str(), source.line(offset));
                        imports.entry(other.clone()).or_insert(place);
                    }
                }
            }
        }
        graphs
    }

    /// The module that a path leads into: the longest beginning of the path that is a module.
    fn module_of<'p>(&self, path: &'p [&'a str]) -> &'p [&'a str] {
        let lengths = (0..=path.len()).rev();
        let mut beginnings = lengths.map(|length| &path[..length]);
        beginnings.find(|beginning| self.paths.contains(*beginning)).unwrap_or_default()
    }

    /// The places of a module: for each level, the folder with the graph, and the module's name in
    /// that graph.
    fn places(&self, module: &[&'a str]) -> Vec<(String, String)> {
        let mut places = Vec::new();
        let mut folder = String::new();
        for length in 1..=module.len() {
            let path = &module[..length];
            if !self.rooms.contains(path) {
                let name = path.join("::");
                places.push((folder, name.clone()));
                folder = name;
            }
        }
        places
    }
}

/// Whether this `mod.rs` has only the names of its modules.
fn only_names_modules(source: &Source) -> bool {
    let names_a_module = |line: &str| {
        let declared = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub "));
        declared.unwrap_or(line).starts_with("mod ") && line.ends_with(';')
    };
    let mut lines = source.production().lines().map(str::trim).filter(|line| !line.is_empty());
    lines.all(names_a_module)
}

/// The paths from the root that the source of `module` names, each with its offset.
pub(super) fn imported<'a>(module: &[&'a str], source: &'a Source) -> Vec<(usize, Vec<&'a str>)> {
    let code = source.production();
    let inner = inner_modules(code);
    let mut found = Vec::new();
    for start in ["crate", "super", "self"].into_iter().flat_map(|word| words(code, word)) {
        let before = code[..start].trim_end();
        let is_path = code[start..].trim_start_matches(char::is_alphabetic).starts_with("::");
        // `a::self` is a part of a path; `pub(in crate::a)` imports nothing.
        if !is_path || before.ends_with("::") || before.ends_with("(in") {
            continue;
        }
        let around = inner.iter().filter(|(_, range)| range.contains(&start));
        let here: Vec<&str> = module.iter().copied().chain(around.map(|(name, _)| *name)).collect();
        found
            .extend(paths(&code[start..]).into_iter().map(|path| (start, from_root(&here, &path))));
    }
    found
}

/// A path that begins with `crate`, `super` or `self`, as named from the root.
fn from_root<'a>(here: &[&'a str], path: &[&'a str]) -> Vec<&'a str> {
    let mut base = if path[0] == "crate" { Vec::new() } else { here.to_vec() };
    let mut rest = path;
    while let [first @ ("crate" | "super" | "self"), after @ ..] = rest {
        if *first == "super" {
            base.pop();
        }
        rest = after;
    }
    [base, rest.to_vec()].concat()
}

/// The modules with a body in this file, each with the place of the body.
fn inner_modules(code: &str) -> Vec<(&str, std::ops::Range<usize>)> {
    words(code, "mod")
        .filter_map(|start| {
            let open = start + code[start..].find(['{', ';'])?;
            let name = code[start + "mod".len()..open].trim();
            (name == first_word(name) && code[open..].starts_with('{'))
                .then(|| (name, open..open + bracketed(&code[open..]).len() + 2))
        })
        .collect()
}

/// Every path of the tree at the start of `code`: one path, or the paths of a list in braces.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let code = code.trim_start();
    if code.starts_with('{') {
        return items(bracketed(code)).flat_map(paths).collect();
    }
    let first = first_word(code);
    match code[first.len()..].strip_prefix("::") {
        Some(rest) => paths(rest).into_iter().map(|rest| [&[first][..], &rest].concat()).collect(),
        None => vec![vec![first]],
    }
}

/// The items between the commas of a list. Commas in braces do not count.
fn items(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    list.split(move |character: char| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        depth == 0 && character == ','
    })
}

/// The shortest way from one module to another, both ends included.
fn way<'g>(graph: &'g Graph<'_>, from: &'g str, to: &str) -> Option<Vec<&'g str>> {
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
    fn the_files_of_a_folder_are_followed_by_super_self_and_in_nested_braces() {
        let folder = "mod a;\nmod b;\nfn shared() { a::f() }\n";
        let told = |a: &str, b: &str| {
            let found = found(&[("load/mod.rs", folder), ("load/a.rs", a), ("load/b.rs", b)]);
            found.into_iter().map(|violation| violation.message).collect::<Vec<_>>()
        };
        for (a, b) in [
            ("use super::b::B;\n", "use super::{a::A, shared};\n"),
            ("use super::{c::D, b::{self, B}};\n", "fn f() -> super::a::A {}\n"),
            ("use crate::load::{b::B};\n", "use self::super::a::A;\n"),
            ("mod inner { use super::super::b::B; }\n", "use super::a;\n"),
        ] {
            let told = told(a, b);
            assert_eq!(told.len(), 1, "{a} {told:?}");
            assert!(told[0].contains("load::a → load::b → load::a"), "{told:?}");
        }
        for (a, b) in [
            ("use super::b::B;\n", "use super::shared;\n"),
            ("use super::b::B;\n", "pub(in super::a) fn f() {}\n"),
            ("use super::b::B;\n", "mod inner { use super::a::A; }\n"),
            ("use super::b::B;\n", "fn f(self) { Self::a::g(); b::super_a() }\n"),
        ] {
            assert_eq!(told(a, b), [""; 0], "{b}");
        }
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
