//! The workspace's own commands: `cargo xtask test` runs every check that a change must pass,
//! `cargo xtask STEP` runs one check.
//!
//! xtask depends only on std, because a fresh machine compiles xtask first.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "what it prints is its result")]
#![forbid(unsafe_code)]

mod aarch64;
mod convert;
mod failure;
mod files;
mod fuzz;
mod guide;
mod hosts;
mod instructions;
mod minimal;
mod miri;
mod outcome;
mod package;
mod pages;
mod peers;
mod release;
mod room;
mod services;
mod simulate;
mod soak;
mod steps;
mod testing;
mod tidy;
mod tokio_patch;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steps::{LANES, SOAK, STEPS};

/// The folders that a command works in.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's target directory. Downloads of xtask go into its folder `xtask`.
    pub(crate) target: PathBuf,
}

impl Workspace {
    fn locate() -> Self {
        // The root is known when xtask is compiled, and does not depend on the current directory.
        // Cargo compiles a moved work tree again.
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask is a folder of the workspace")
            .to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |target| root.join(target));
        Self { root, target }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let workspace = Workspace::locate();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => steps::run(&workspace, STEPS),
        ["test", name] => match LANES.iter().find(|lane| lane.name == name) {
            Some(lane) => steps::run_lane(&workspace, lane),
            None => refuse(&format!("there is no lane `{name}`")),
        },
        ["--help" | "-h" | "help"] => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        ["fuzz", ref rest @ ..] => match fuzz::Options::read(rest) {
            Ok(options) => steps::run_fuzz(&workspace, &options),
            Err(problem) => refuse(&problem.to_string()),
        },
        ["hosts", ref rest @ ..] => hosts::run(&workspace, rest),
        ["tidy", "--shrink"] => steps::shrink(&workspace),
        ["convert", "--test"] => steps::run_by_name(&workspace, "convert-test"),
        ["aarch64"] => steps::run_aarch64(&workspace),
        ["guide"] => steps::run_guide(&workspace),
        ["instructions"] => steps::run_instructions(&workspace, false),
        ["instructions", "--keep"] => steps::run_instructions(&workspace, true),
        ["package"] => steps::run_package(&workspace),
        ["release"] => steps::run_release(&workspace, false),
        ["release", "--verify"] => steps::run_release(&workspace, true),
        ["simulate"] => steps::run_simulate(&workspace),
        ["tokio-patch"] => steps::run_tokio_patch(&workspace),
        ["minimal"] => steps::run_minimal(&workspace),
        ["soak", ref rest @ ..] => steps::run_soak(&workspace, rest),
        [name] => match STEPS.iter().position(|step| step.name == name) {
            Some(index) => steps::run(&workspace, &STEPS[index..=index]),
            None => refuse(&format!("there is no command `{name}`")),
        },
        [] => refuse("a command is missing"),
        [_, surplus, ..] => refuse(&format!("`{surplus}` is one argument too many")),
    }
}

/// Prints what is wrong with the command line. Returns exit code 2, as every command of Duality.
fn refuse(problem: &str) -> ExitCode {
    eprintln!("xtask: {problem}; `cargo xtask --help` lists the commands");
    ExitCode::from(2)
}

/// The most columns of a line of the help.
const COLUMNS: usize = 80;

fn help() -> String {
    let mut text = String::from("Usage: cargo xtask COMMAND\n\n");
    let lanes = LANES.map(|lane| lane.name).join(", ");
    text += &entry("test", 12, &format!("every step below, in this order; or the lane {lanes}"));
    text += "\nSteps, each a command of its own:\n";
    for step in STEPS {
        text += &entry(step.name, 12, step.about);
    }
    text += "\nNot among them:\n";
    text += &entry(SOAK.name, 12, SOAK.about);
    text += &entry("aarch64", 12, aarch64::ABOUT);
    text += &entry("guide", 12, guide::ABOUT);
    text += &entry("hosts", 12, hosts::ABOUT);
    text += &entry("instructions", 12, instructions::ABOUT);
    text += &entry("minimal", 12, minimal::ABOUT);
    text += &entry("package", 12, "builds the Debian package, and the folder that it is made of");
    text += &entry("release", 12, release::ABOUT);
    text += &entry("simulate", 12, simulate::ABOUT);
    text += &entry("tokio-patch", 12, tokio_patch::ABOUT);
    text += "\nRules of `tidy`; xtask/src/tidy/mod.rs has the exceptions, and why:\n";
    for rule in tidy::RULES {
        text += &entry(rule.name, 16, rule.demand);
    }
    text
}

/// A line of the help: a name in `columns` columns, and beside it the wrapped text `about`.
fn entry(name: &str, columns: usize, about: &str) -> String {
    let mut lines = vec![format!("  {name:<columns$}")];
    for word in about.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{:1$} {word}", "", columns + 2)),
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_command_and_rule() {
        let help = help();
        let names =
            STEPS.iter().map(|step| step.name).chain(tidy::RULES.iter().map(|rule| rule.name));
        let others = [
            "soak",
            "aarch64",
            "convert",
            "guide",
            "hosts",
            "package",
            "release",
            "simulate",
            "tokio-patch",
        ];
        for name in names.chain(["test"]).chain(others) {
            assert!(help.contains(&format!("\n  {name} ")), "{name}");
        }
        let wide = help.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(wide, None, "a line of the help is too wide");
    }
}
