//! Passes on how the crate is compiled, which only a build script is told (`built.rs`).

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let told = |name: &str| env::var(name).unwrap_or_default();
    println!("cargo::rustc-env=DUALITY_BUILT_LEVEL={}", told("OPT_LEVEL"));
    // OUT_DIR is target/PROFILE/build/PACKAGE/out. The variable PROFILE is `release` for all
    // optimised profiles.
    let out = told("OUT_DIR");
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = profile.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    println!("cargo::rustc-env=DUALITY_BUILT_PROFILE={profile}");
    let flags = told("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ");
    println!("cargo::rustc-env=DUALITY_BUILT_FLAGS={flags}");
}
