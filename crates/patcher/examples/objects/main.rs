//! Checks that patching changes no byte outside code, over every object beneath some folders:
//!
//! ```sh
//! cargo run --release -p duality-patcher --example objects -- /usr/lib /usr/bin
//! ```
//!
//! Each object is searched twice: with its section headers, and as if it had none. The exit status
//! is 1 if a byte outside code would change.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "what it prints is its result")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod check;

#[derive(Default)]
struct Totals {
    objects: usize,
    with_sites: usize,
    sites: usize,
    with_data_among_code: usize,
    refused: usize,
    wrong: usize,
}

fn add(totals: &mut Totals, path: &Path, by_sections: bool) {
    let Some(result) = check::check(path, by_sections) else { return };
    totals.objects += 1;
    totals.with_sites += usize::from(result.sites > 0);
    totals.sites += result.sites;
    totals.with_data_among_code += usize::from(result.data_among_code > 0);
    if by_sections && result.data_among_code > 0 {
        println!("data among code: {}", path.display());
    }
    if let Some(address) = result.refused.first() {
        totals.refused += 1;
        let places = result.refused.len();
        println!("refused: {} at {address:#x}, of {places}", path.display());
    }
    for (address, section) in result.changes_of_data {
        totals.wrong += 1;
        println!("WRONG: {} changes {section} at {address:#x}", path.display());
    }
}

fn main() -> ExitCode {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if folders.is_empty() {
        eprintln!("name the folders to search, such as /usr/lib");
        return ExitCode::from(2);
    }
    let files: BTreeSet<PathBuf> = folders
        .iter()
        .flat_map(|path| if path.is_dir() { check::files(path) } else { vec![path.clone()] })
        .collect();
    let mut wrong = 0;
    for by_sections in [true, false] {
        println!("== {} section headers", if by_sections { "with" } else { "without" });
        let mut totals = Totals::default();
        for file in &files {
            add(&mut totals, file, by_sections);
        }
        println!(
            "{} objects, {} with system calls ({}), {} with data among code; {} refused; {} changes of data",
            totals.objects,
            totals.with_sites,
            totals.sites,
            totals.with_data_among_code,
            totals.refused,
            totals.wrong
        );
        wrong += totals.wrong;
    }
    ExitCode::from(u8::from(wrong > 0))
}
