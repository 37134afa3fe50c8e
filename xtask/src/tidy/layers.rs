//! The rule about the folders of a crate in layers: each uses those beneath it and no other.
//!
//! A crate has layers if the header of its `lib.rs` says that `cargo xtask tidy` reads the order
//! there. The order is that of the header's lines that begin with a folder, such as `kernel/`, the
//! highest first. Production code counts, as for the rule about circles.

use super::modules::imported;
use super::{Source, Tree, Violation};

const MARK: &str = "`cargo xtask tidy` reads the order here";

pub(crate) fn layers(tree: &Tree) -> Vec<Violation> {
    let roots = tree.sources.iter().filter(|source| source.path.ends_with("/src/lib.rs"));
    roots
        .filter_map(|root| Some((root, order(root)?)))
        .flat_map(|(root, order)| {
            let own = tree.sources.iter().filter(|source| source.package() == root.package());
            own.flat_map(|source| upward(source, &order)).collect::<Vec<_>>()
        })
        .collect()
}

/// The folders in the order of the header, the highest first.
fn order(root: &Source) -> Option<Vec<&str>> {
    let header = root.text.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<&str> = header.map(str::trim).collect();
    lines.iter().any(|line| line.contains(MARK)).then(|| {
        let words = lines.iter().filter_map(|line| line.split_whitespace().next());
        words.filter_map(|word| word.strip_suffix('/')).collect()
    })
}

/// The imports of a source that lead to a folder above, or beside the order.
fn upward(source: &Source, order: &[&str]) -> Vec<Violation> {
    let Some((_, inside)) = source.path.split_once("/src/") else { return Vec::new() };
    let module: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    let [folder, _, ..] = module[..] else { return Vec::new() };
    if source.is_test() {
        return Vec::new();
    }
    let Some(height) = order.iter().position(|other| *other == folder) else {
        let message =
            format!("`{folder}/` does not stand in the order of lib.rs; add its line there");
        return vec![Violation::new(source.path.as_str(), 0, message)];
    };
    let imports = imported(&module, source).into_iter();
    let up = imports
        .filter(|(_, path)| path.first().is_some_and(|theirs| order[..height].contains(theirs)));
    up.map(|(offset, path)| {
        let message = format!(
            "`{folder}` stands beneath `{}` in lib.rs, and uses it; move what they share below both",
            path[0]
        );
        Violation::new(source.path.as_str(), source.line(offset), message)
    }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "//! An engine.\n//!\n//! ```text\n//!    entry/    calls\n//!    kernel/   \
                        the rest\n//! ```\n//!\n//! Beneath: `cargo xtask tidy` reads the order here.\n";

    fn found(root: &str, files: &[(&str, &str)]) -> Vec<Violation> {
        let files = [&[("lib.rs", root)], files].concat();
        let source =
            |(path, text): &(&str, &str)| Source::new(format!("crates/lab/src/{path}"), *text);
        layers(&Tree { sources: files.iter().map(source).collect(), ..Tree::sample() })
    }

    #[test]
    fn an_import_of_a_folder_above_is_found_though_it_makes_no_circle() {
        let up = "\nuse crate::entry::frame::Frame;\n";
        let down = "use crate::kernel::sys;\nuse crate::entry::frame;\n";
        let found = found(ROOT, &[("kernel/user.rs", up), ("entry/start.rs", down)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/lab/src/kernel/user.rs", 2));
        assert!(found[0].message.contains("`kernel` stands beneath `entry`"), "{found:?}");
    }

    #[test]
    fn a_folder_beside_the_order_is_found_and_a_crate_without_an_order_has_none() {
        let files = [("show/mod.rs", "mod a;\n"), ("kernel/a.rs", "use crate::entry::b;\n")];
        assert_eq!(found("//! A library.\n", &files), []);
        let found = found(ROOT, &files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].message.contains("`show/` does not stand in the order"), "{found:?}");
    }

    #[test]
    fn tests_may_use_what_stands_above() {
        let text = "#[cfg(test)]\nmod tests {\n    use crate::entry::b;\n}\n";
        assert_eq!(found(ROOT, &[("kernel/a.rs", text)]), []);
    }
}
