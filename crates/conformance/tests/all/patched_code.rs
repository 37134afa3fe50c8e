//! Tests that the engine patches code and no data. The executable segment of each object also holds
//! relocations and constants.

use std::path::Path;
use std::process::{Command, Output};

use duality_conformance::programs::{compile, finish, folder};

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

/// Linker flags that put data into the segment of the code.
const SHARED_SEGMENT: [&str; 2] = ["-Wl,-z,noseparate-code", "-fuse-ld=gold"];

/// Whether the linker of this flag is there.
fn can_link(flag: &str) -> bool {
    let there = flag != "-fuse-ld=gold"
        || Command::new("ld.gold")
            .arg("--version")
            .output()
            .is_ok_and(|said| said.status.success());
    if !there {
        duality_conformance::skip(format_args!("the linker gold is not installed"));
    }
    there
}

fn run(arguments: &[&Path]) -> Output {
    finish(Command::new(DUALITY).args(["run", "--"]).args(arguments))
}

fn program(name: &str) -> std::path::PathBuf {
    folder("programs").join(name).with_extension("c")
}

#[test]
fn a_library_with_data_among_its_code_is_loaded_whole() {
    let place = tempfile::tempdir().expect("a folder");
    let whole = place.path().join("whole");
    compile(&[program("whole_library")], &["-ldl"], &whole);
    for flag in SHARED_SEGMENT.into_iter().filter(|flag| can_link(flag)) {
        let library = place.path().join("library.so");
        compile(&[program("words_like_calls")], &["-shared", "-fPIC", flag], &library);
        let natively = finish(Command::new(&whole).arg(&library));
        assert!(natively.status.success(), "{flag}: {natively:?}");
        let ours = run(&[&whole, &library]);
        assert_eq!(ours.stdout, natively.stdout, "{flag}: {ours:?}");
    }
}

#[test]
fn instructions_among_the_constants_of_a_program_stay() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("program");
    for flag in SHARED_SEGMENT.into_iter().filter(|flag| can_link(flag)) {
        compile(&[program("code_in_constants")], &[flag], &path);
        let ours = run(&[&path]);
        assert_eq!(ours.stdout, b"right\n", "{flag}: {ours:?}");
        let checked = finish(Command::new(DUALITY).args(["run", "--check"]).arg(&path));
        assert!(checked.status.success(), "{flag}: {checked:?}");
    }
}

/// Takes the section headers away, as some tools do to make a file smaller.
fn remove_section_headers(path: &Path) {
    let mut bytes = std::fs::read(path).expect("readable");
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    std::fs::write(path, bytes).expect("writable");
}

#[test]
fn without_section_headers_what_may_be_code_is_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("program");
    compile(&[program("code_in_constants")], &["-Wl,-z,noseparate-code"], &path);
    remove_section_headers(&path);
    let ours = run(&[&path]);
    let stderr = String::from_utf8_lossy(&ours.stderr);
    assert_eq!(ours.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("cannot be intercepted") && stderr.lines().count() == 1, "{stderr}");
    let checked = finish(Command::new(DUALITY).args(["run", "--check"]).arg(&path));
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    // With separate code, the constants are in no executable segment.
    compile(&[program("code_in_constants")], &["-Wl,-z,separate-code"], &path);
    remove_section_headers(&path);
    let ours = run(&[&path]);
    assert_eq!(ours.stdout, b"right\n", "{ours:?}");
}
