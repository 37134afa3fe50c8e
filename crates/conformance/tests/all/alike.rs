//! What requests run through is compiled alike in each profile that measures. Otherwise a
//! comparison of architectures would measure the compiler.
//!
//! Cargo tells the settings of each crate of a program (`--unit-graph`). The test walks from the
//! crates that serve and load, along their dependencies.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// The crates that serve requests, and the one that makes them.
const ROOTS: [&str; 14] = [
    "duality_architectures",
    "duality_costs",
    "duality_handwritten",
    "duality_load",
    "duality_runtime",
    "duality_services",
    "duality_tokio",
    "axum",
    "h2",
    "hyper",
    "hyper_util",
    "rustls",
    "tokio",
    "tower",
];

/// Dependencies that no request runs through, with the reason.
const IDLE: [(&str, &str); 9] = [
    ("addr2line", "names functions in the backtrace of a crash"),
    ("backtrace", "the backtrace of a crash"),
    ("csv", "reads files of values before a load begins"),
    ("duality", "reads flags; its services are compiled elsewhere"),
    ("duality_lab", "judges figures after a measurement"),
    ("gimli", "reads debugging information for a backtrace"),
    ("jiff", "reads the stamps of a log before a load begins"),
    ("regex_syntax", "reads expressions before a load begins"),
    ("rustc_demangle", "names functions in the backtrace of a crash"),
];

/// The measured programs: the arguments that choose one, and its features.
const PROGRAMS: [(&[&str], &str); 4] = [
    (&["-p", "duality", "--bin", "duality"], ""),
    (&["-p", "duality", "--bin", "duality"], "rustls,http2,hyper,tokio-io,futures-io"),
    (&["-p", "duality-tokio", "--example", "shop"], ""),
    (&["-p", "duality-tokio", "--example", "shop"], "rustls"),
];

/// All crates of a program, with their settings, as cargo would compile them.
fn units(program: &[&str], features: &str, profile: &str) -> Result<Vec<Value>, String> {
    let mut command = Command::new(env!("CARGO"));
    // The option is not stable. Only this test depends on it.
    command.env("RUSTC_BOOTSTRAP", "1").current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args(["build", "--offline", "--unit-graph", "-Zunstable-options"]);
    command.args(["--profile", profile, "--features", features]).args(program);
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let graph: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    Ok(graph["units"].as_array().cloned().unwrap_or_default())
}

fn name(unit: &Value) -> &str {
    unit["target"]["name"].as_str().unwrap_or_default()
}

/// Whether a unit becomes a part of the program. A macro and a build script do not.
fn is_linked(unit: &Value) -> bool {
    let kinds = unit["target"]["kind"].as_array().into_iter().flatten();
    let mut kinds = kinds.filter_map(Value::as_str);
    unit["mode"] == "build" && !kinds.any(|kind| ["proc-macro", "custom-build"].contains(&kind))
}

/// The places of the units that requests run through.
fn walked(units: &[Value]) -> BTreeSet<usize> {
    let is_root = |unit: &Value| ROOTS.contains(&name(unit)) && is_linked(unit);
    let mut open: Vec<usize> = (0..units.len()).filter(|&place| is_root(&units[place])).collect();
    let mut seen = BTreeSet::new();
    while let Some(place) = open.pop() {
        let unit = &units[place];
        let is_idle = IDLE.iter().any(|(idle, _)| *idle == name(unit).replace('-', "_"));
        if is_idle || !is_linked(unit) || !seen.insert(place) {
            continue;
        }
        let needed = unit["dependencies"].as_array().into_iter().flatten();
        open.extend(needed.filter_map(|one| one["index"].as_u64()).map(|index| index as usize));
    }
    seen
}

#[test]
fn what_requests_run_through_is_compiled_alike() {
    for profile in ["release", "dist"] {
        for (program, features) in PROGRAMS {
            let units = match units(program, features, profile) {
                Ok(units) => units,
                Err(reason) if reason.contains("--offline was specified") => {
                    duality_conformance::skip(format_args!(
                        "{program:?} with {features:?}: {reason}"
                    ));
                    continue;
                }
                Err(reason) => panic!("{program:?}: {reason}"),
            };
            let walked = walked(&units);
            assert!(walked.len() > 20, "{program:?}: {} crates", walked.len());
            let setting = |place: &usize| {
                let settings = &units[*place]["profile"];
                (
                    name(&units[*place]),
                    ["opt_level", "lto", "codegen_units"].map(|key| &settings[key]),
                )
            };
            let (_, expected) =
                walked.iter().map(setting).find(|(name, _)| *name == "duality_runtime").unwrap();
            assert_eq!(expected[0], "3", "{profile}");
            for (crate_name, found) in walked.iter().map(setting) {
                assert_eq!(found, expected, "{crate_name} of {program:?} in the profile {profile}");
            }
        }
    }
}

/// The user's own service is what is measured, too: an example of ours stands for it.
#[test]
fn the_walk_finds_what_it_must() {
    let (program, features) = PROGRAMS[3];
    let Ok(units) = units(program, features, "release") else {
        duality_conformance::skip(format_args!("the dependencies are not on this machine"));
        return;
    };
    let walked: BTreeSet<&str> = walked(&units).iter().map(|&place| name(&units[place])).collect();
    for expected in
        ["mio", "http", "bytes", "io-uring", "httparse", "rustls", "axum", "hdrhistogram"]
    {
        let is_found = walked.iter().any(|name| name.replace('_', "-") == expected);
        assert!(is_found, "{expected} is not among {walked:?}");
    }
}
