//! Rules about words that must not stand in some files.

use super::source::{bracketed, first_word, offsets, words};
use super::{Source, Tree, Violation};

/// The functions that a preloaded library interposes. The code beneath `duality run` must not call
/// them.
const QUIET: &[&str] = &[
    "crates/poller/src/",
    "crates/fiber/src/",
    "crates/runtime/src/event_loop/",
    "crates/runtime/src/remote/",
    "crates/runtime/src/wait.rs",
    "crates/runtime/src/world/",
];

pub(crate) fn ignored(tree: &Tree) -> Vec<Violation> {
    let message =
        "a test runs, or it is not in the tree; what the machine lacks is reported as unavailable";
    let find = |source: &Source| at(source, offsets(&source.code, "#[ignore"), message);
    tree.sources.iter().flat_map(find).collect()
}

pub(crate) fn platform(tree: &Tree) -> Vec<Violation> {
    let find = |source: &Source| {
        let code = &source.code;
        let predicates = words(code, "cfg").chain(words(code, "cfg_attr")).filter(|&start| {
            let rest = code[start..]
                .trim_start_matches("cfg_attr")
                .trim_start_matches("cfg")
                .trim_start_matches('!');
            rest.starts_with('(') && names_a_platform(bracketed(rest))
        });
        at(source, predicates, "a platform's peculiarity belongs in the runtime or the poller")
    };
    tree.sources
        .iter()
        .filter(|source| matches!(source.package(), "services" | "architectures"))
        .flat_map(find)
        .collect()
}

pub(crate) fn quiet(tree: &Tree) -> Vec<Violation> {
    let find = |source: &Source| {
        let code = source.production();
        let threads = imports(code, "thread", &["sleep", "spawn", "scope", "Builder"]);
        let files = imports(code, "std", &["fs"]);
        // Addresses are plain values. Sockets are not, and neither is the resolver behind
        // ToSocketAddrs.
        let sockets =
            imports(code, "std::net", &["TcpListener", "TcpStream", "UdpSocket", "ToSocketAddrs"]);
        let found = threads.chain(files).chain(sockets);
        at(
            source,
            found,
            "`duality run` interposes what this calls: use rustix, and leave sleeping to the caller",
        )
    };
    tree.sources
        .iter()
        .filter(|source| QUIET.iter().any(|folder| source.path.starts_with(folder)))
        .flat_map(find)
        .collect()
}

pub(crate) fn port(tree: &Tree) -> Vec<Violation> {
    // An address stands in a string, so the rule searches the text and not the code.
    const BEFORE_A_PORT: [&str; 6] = [
        "127.0.0.1:",
        "localhost:",
        "0.0.0.0:",
        "[::1]:",
        "[127, 0, 0, 1], ",
        "Ipv4Addr::LOCALHOST, ",
    ];
    let find = |source: &Source| {
        let text = &source.text;
        let fixed = BEFORE_A_PORT.into_iter().flat_map(|address| {
            offsets(text, address).filter(move |start| {
                text[start + address.len()..].starts_with(|next| matches!(next, '1'..='9'))
            })
        });
        at(
            source,
            fixed,
            "bind port 0 and ask for the address: two runs of the tests may share a machine",
        )
    };
    let integration = |source: &&Source| source.path.starts_with("crates/") && source.is_test();
    tree.sources.iter().filter(integration).flat_map(find).collect()
}

/// One violation for each offset, in the order of the file.
fn at(source: &Source, found: impl Iterator<Item = usize>, message: &str) -> Vec<Violation> {
    let mut lines: Vec<usize> = found.map(|offset| source.line(offset)).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.into_iter().map(|line| Violation::new(&source.path, line, message)).collect()
}

/// The places that reach one of `names` through `module::`, alone or in braces.
fn imports<'a>(
    code: &'a str,
    module: &'a str,
    names: &'a [&'a str],
) -> impl Iterator<Item = usize> + 'a {
    words(code, module).filter(|start| {
        let Some(rest) = code[start + module.len()..].strip_prefix("::") else { return false };
        if !rest.starts_with('{') {
            return names.contains(&first_word(rest));
        }
        // `use std::{fs, os::unix::fs::FileExt}` names `fs` once: the second `fs` belongs to
        // another module.
        bracketed(rest).split(',').any(|item| names.contains(&first_word(item.trim_start())))
    })
}

/// Whether the predicate of a `cfg` depends on the machine that the code is compiled for.
fn names_a_platform(predicate: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    predicate
        .split(|character| !is_word(character))
        .any(|word| word.starts_with("target_") || matches!(word, "unix" | "windows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that `rule` finds in a file with this text at this path.
    fn lines(rule: fn(&Tree) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
        let tree = Tree { sources: vec![Source::new(path, text)], ..Tree::sample() };
        rule(&tree).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn ignored_tests_are_found_in_code_only() {
        let text = "// #[ignore]\n#[ignore = \"slow\"]\nfn h(ignore: u8) {}\n";
        assert_eq!(lines(ignored, "crates/lab/src/plan.rs", text), [2]);
    }

    #[test]
    fn platforms_stay_beneath_services_and_architectures() {
        let text = "#[cfg(target_os = \"linux\")]\n#[cfg(test)]\n#[cfg_attr(all(test, unix), x)]\nfn f() { cfg!(windows); }\n";
        assert_eq!(lines(platform, "crates/services/src/echo.rs", text), [1, 3, 4]);
        assert_eq!(lines(platform, "crates/runtime/src/fs.rs", text), [0; 0]);
    }

    #[test]
    fn what_a_preloaded_library_interposes_is_not_called() {
        let text = "use std::{fs, io};\nuse std::{io, os::unix::fs::FileExt};\nuse std::net::{SocketAddr, TcpStream};\n\
                    use std::net::SocketAddr;\nfn f() { std::thread::sleep(d); thread::current(); }\n\
                    #[cfg(test)]\nmod tests {\nfn g() { std::thread::sleep(d); }\n}\n";
        assert_eq!(lines(quiet, "crates/fiber/src/lib.rs", text), [1, 3, 5]);
        assert_eq!(lines(quiet, "crates/runtime/src/task.rs", text), [0; 0]);
    }

    #[test]
    fn tests_do_not_choose_ports() {
        let text =
            "\"127.0.0.1:8080\"\n\"127.0.0.1:0\"\n([127, 0, 0, 1], 0)\n(Ipv4Addr::LOCALHOST, 99)\n";
        assert_eq!(lines(port, "crates/load/tests/closed.rs", text), [1, 4]);
        assert_eq!(lines(port, "crates/load/src/target.rs", text), [0; 0]);
    }
}
