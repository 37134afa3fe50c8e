//! Builds two shared objects for the command to carry: the engine of `duality run`, and what
//! `duality simulate --tls` preloads.
//!
//! The engine is a package of the workspace. A cargo of its own builds it here, since it has no
//! std, aborts on panic, and is a `cdylib`. A dependency cannot have its own settings for these.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources of the engine. A change of a source builds the engine anew.
const SOURCES: [&str; 2] = ["engine", "patcher"];

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    let engine = out.join("engine.so");
    let crates = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("..");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", crates.join(source).display());
    }
    println!("cargo::rerun-if-changed={}", crates.join("outside").display());
    println!("cargo::rerun-if-changed=build.rs");
    let outside = out.join("outside.so");
    println!("cargo::rustc-env=DUALITY_OUTSIDE={}", outside.display());
    // A build without TLS has no use for it.
    let is_wanted = ["TOOL", "RUSTLS"]
        .iter()
        .all(|feature| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some());
    if is_wanted && variable("CARGO_CFG_TARGET_ENV") == "gnu" {
        build_outside(&crates.join("outside"), &out.join("target"), &outside);
    } else {
        fs::write(&outside, []).expect("the build's own folder is writable");
    }
    println!("cargo::rustc-env=DUALITY_ENGINE={}", engine.display());
    let supported =
        variable("CARGO_CFG_TARGET_ARCH") == "x86_64" && variable("CARGO_CFG_TARGET_OS") == "linux";
    if !supported || env::var_os("CARGO_FEATURE_TOOL").is_none() {
        // Without the engine, the command says that `run` does not support this machine.
        fs::write(&engine, []).expect("the build's own folder is writable");
        return;
    }
    build(&crates.join("engine"), &out.join("target"), &engine);
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_default()
}

/// A reproducible build maps paths in its objects too. The other flags of the outer build
/// (sanitizers, loom, clippy) do not apply to these.
fn remapped_paths() -> Vec<String> {
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    let flags = flags.to_string_lossy();
    let paths = flags.split('\u{1f}').filter(|flag| flag.starts_with("--remap-path-prefix="));
    paths.map(str::to_owned).collect()
}

/// A build of a package of the workspace as a shared object.
fn shared_object(package: &Path, target: &Path) -> Command {
    let mut cargo = Command::new(variable("CARGO"));
    cargo.arg("rustc").arg("--quiet").arg("--manifest-path").arg(package.join("Cargo.toml"));
    cargo.args(["--lib", "--crate-type", "cdylib", "--release", "--target-dir"]).arg(target);
    cargo
}

/// Takes the settings of the outer build away, and builds.
fn finish(mut cargo: Command, what: &str, built: &Path, object: &Path) {
    for name in [
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTFLAGS",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
    ] {
        cargo.env_remove(name);
    }
    let status = cargo.status().expect("cargo, which runs this, can be run");
    assert!(status.success(), "{what} does not build: {status}");
    fs::copy(built, object).expect("built just now");
}

/// The crate `duality-outside` without a simulation of its own, since it asks the command's.
fn build_outside(package: &Path, target: &Path, object: &Path) {
    let mut cargo = shared_object(package, target);
    cargo.args(["--no-default-features", "--config", "profile.release.debug=false", "--"]);
    cargo.args(remapped_paths());
    let built = target.join("release/libduality_outside.so");
    finish(cargo, "the object of `duality simulate`", &built, object);
}

fn build(package: &Path, target: &Path, engine: &Path) {
    let mut cargo = shared_object(package, target);
    // A panic ends the process, because nothing can unwind the stacks of another program.
    for setting in ["panic=\"abort\"", "opt-level=3", "codegen-units=1", "debug=false"] {
        cargo.arg("--config").arg(format!("profile.release.{setting}"));
    }
    // Builds for tests have the engine's costly assertions on.
    let asserts = variable("PROFILE") == "debug";
    cargo.arg("--config").arg(format!("profile.release.debug-assertions={asserts}"));
    cargo.args(["--", "--cfg", "engine_object"]);
    // No libraries, all symbols bound at the start, and the constructor before all others.
    for flag in ["-nostdlib", "-Wl,-z,now", "-Wl,-z,initfirst", "-Wl,--strip-debug"] {
        cargo.arg("-C").arg(format!("link-arg={flag}"));
    }
    cargo.args(remapped_paths());
    let built = target.join("release/libduality_engine.so");
    finish(cargo, "the engine of `duality run`", &built, engine);
}
