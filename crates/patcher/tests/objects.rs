//! Checks a sample of this machine's libraries: patching changes no byte outside code.
//! `scripts/run/objects.sh` checks all of them.

use std::path::{Path, PathBuf};

#[path = "../examples/objects/check.rs"]
mod check;

/// The most objects, and the most bytes of one, so that a build without optimisation is done in
/// seconds.
const OBJECTS: usize = 60;
const BYTES: u64 = 600 << 10;

#[test]
fn no_byte_outside_code_changes() {
    let small = |path: &PathBuf| {
        path.metadata().is_ok_and(|status| status.len() < BYTES)
            && path.to_str().is_some_and(|name| name.contains(".so"))
    };
    let files: Vec<PathBuf> =
        check::files(Path::new("/usr/lib")).into_iter().filter(small).collect();
    let step = (files.len() / OBJECTS).max(1);
    let mut checked = 0;
    for path in files.iter().step_by(step) {
        for by_sections in [true, false] {
            let Some(result) = check::check(path, by_sections) else { continue };
            assert!(result.changes_of_data.is_empty(), "{}: {result:?}", path.display());
            checked += 1;
        }
    }
    if checked == 0 {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "skipped: /usr/lib has no libraries for x86_64");
    }
}
