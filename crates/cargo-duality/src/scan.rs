//! What compiles and has no effect: settings of runtimes, and a patch that Cargo.lock does not use.
//! Settings are found by their names in the sources of the workspace's own packages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::json::Note;

/// Settings without an effect, and what has one.
const SETTINGS: [(&str, &str); 4] = [
    ("event_interval", "a loop decides by itself"),
    ("global_queue_interval", "a loop decides by itself"),
    ("max_io_events_per_tick", "the poller decides"),
    ("max_io_events_per_busy_tick", "the poller decides"),
];

/// Finds settings without an effect in the packages in these folders. Paths begin at `root`.
pub(crate) fn notes<'a>(folders: impl Iterator<Item = &'a Path>, root: &Path) -> Vec<Note> {
    let mut files = BTreeSet::new();
    folders.for_each(|folder| collect(folder, &mut files));
    let mut notes = Vec::new();
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for (index, line) in text.lines().enumerate() {
            let found = SETTINGS.iter().find(|(setting, _)| sets(line, setting));
            notes.extend(found.map(|(setting, instead)| Note {
                file: file.clone(),
                line: index + 1,
                text: format!("{setting} has no effect; {instead}"),
            }));
        }
    }
    notes
}

/// The note that a lock does not use the workspace's patch of tokio: cargo warns of this once, and
/// then builds the genuine tokio.
pub(crate) fn unused_patch(lock: &str) -> Option<Note> {
    let is_unused = |block: &str| block.lines().any(|line| line == "name = \"tokio\"");
    let (at, _) = lock.match_indices("[[patch.unused]]").find(|(at, heading)| {
        let block = lock[at + heading.len()..].split("[[").next();
        block.is_some_and(is_unused)
    })?;
    let line = lock[..at].lines().count() + 1;
    let text = "the patch of tokio is not in use; the command at the end puts it in".to_owned();
    Some(Note { file: "Cargo.lock".to_owned(), line, text })
}

/// Whether a line calls a setter of a builder, or sets an argument of `#[tokio::main]`.
fn sets(line: &str, setting: &str) -> bool {
    let code = line.trim_start();
    let is_set = |after: &str| after.trim_start().starts_with(['(', '=']);
    let is_tokios = |before: &str| before.ends_with('.') || before.contains("tokio::");
    !code.starts_with("//")
        && code
            .split_once(setting)
            .is_some_and(|(before, after)| is_tokios(before) && is_set(after))
}

/// The sources in a folder, without what is built and hidden.
fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        // A link may lead in a circle.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && name != "target" && !name.starts_with('.') {
            collect(&path, files);
        } else if name.ends_with(".rs") {
            files.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_an_effect_are_found_in_code_only() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src")).unwrap();
        fs::create_dir_all(folder.path().join("target")).unwrap();
        let text = "// .event_interval(4)\n#[tokio::main(worker_threads = 4)]\nfn main() {\n\
                    let event_interval = 4;\nbuilder\n    .event_interval(61);\n\
                    builder.event_interval(61);\n}\n";
        fs::write(folder.path().join("src/main.rs"), text).unwrap();
        fs::write(folder.path().join("target/made.rs"), text).unwrap();
        let notes = notes([folder.path()].into_iter(), folder.path());
        let found: Vec<_> = notes.iter().map(|note| (&*note.file, note.line)).collect();
        assert_eq!(found, [("src/main.rs", 6), ("src/main.rs", 7)]);
        assert!(notes[0].text.contains("a loop decides"), "{notes:?}");
    }

    #[test]
    fn an_unused_patch_is_found_where_it_is_of_tokio() {
        let tokio = "[[package]]\nname = \"tokio\"\n\n";
        let unused = |name| format!("[[patch.unused]]\nname = \"{name}\"\nversion = \"1\"\n\n");
        assert_eq!(unused_patch(&format!("{}{tokio}", unused("bytes"))), None);
        let lock = format!("{tokio}{}{}", unused("bytes"), unused("tokio"));
        let note = unused_patch(&lock).unwrap();
        assert_eq!((&*note.file, note.line), ("Cargo.lock", 8));
    }
}
