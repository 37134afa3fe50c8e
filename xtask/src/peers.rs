//! `cargo xtask peers`: builds the programs of peers/. `duality model --costs` and `duality compare
//! --peers` measure these programs beside our own code.
//!
//! The programs go to `target/peers`, where both commands look for them. If a peer's package is not
//! available, the peer is left out, and a line names it. Users of Duality need no peers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{At as _, Failure, Result};
use crate::files::make;
use crate::outcome::execute;
use crate::{Workspace, tools};

/// One peer: its source and the needs of its compiler.
struct Peer {
    name: &'static str,
    /// The folder of its source.
    folder: &'static str,
    needs: Needs,
}

enum Needs {
    /// A C compiler, a library to link with, and a header from a Debian package.
    C { library: &'static str, header: &'static str, package: &'static str },
    /// The Go compiler.
    Go,
}

const PEERS_FOLDER: &str = "peers";

const PEERS: &[Peer] = &[
    c("st", "-lst", "/usr/include/st.h", "libst-dev"),
    c("pth", "-lpth", "/usr/include/pth.h", "libpth-dev"),
    c("pthreads", "-pthread", "/usr/include/pthread.h", "libc6-dev"),
    Peer { name: "go", folder: PEERS_FOLDER, needs: Needs::Go },
    c("http_st", "-lst", "/usr/include/st.h", "libst-dev"),
    c("http_pth", "-lpth", "/usr/include/pth.h", "libpth-dev"),
    c("http_pthreads", "-pthread", "/usr/include/pthread.h", "libc6-dev"),
    c("http_epoll", "-pthread", "/usr/include/pthread.h", "libc6-dev"),
    c("echo_st", "-lst", "/usr/include/st.h", "libst-dev"),
    c("echo_pth", "-lpth", "/usr/include/pth.h", "libpth-dev"),
    c("echo_pthreads", "-pthread", "/usr/include/pthread.h", "libc6-dev"),
    c("echo_epoll", "-pthread", "/usr/include/pthread.h", "libc6-dev"),
    Peer { folder: "examples/c", ..c("server", "-pthread", "/usr/include/pthread.h", "libc6-dev") },
];

const fn c(
    name: &'static str,
    library: &'static str,
    header: &'static str,
    package: &'static str,
) -> Peer {
    Peer { name, folder: PEERS_FOLDER, needs: Needs::C { library, header, package } }
}

/// Builds all peers with packages that this machine has, or (as root) can install. Returns a line
/// for each peer that lacks a package.
///
/// # Errors
///
/// Names a peer that does not compile although all packages are there.
pub(crate) fn build(workspace: &Workspace) -> Result<Vec<String>> {
    let folder = workspace.target.join("peers");
    make(&folder)?;
    let packages = missing_packages(|header| Path::new(header).is_file());
    let refusal = if packages.is_empty() { None } else { tools::install_packages(&packages).err() };
    if let Some(refusal) = &refusal {
        println!("{refusal}");
    }
    let mut left_out = Vec::new();
    for peer in PEERS {
        let program = folder.join(peer.name);
        match compiler(workspace, peer, &program) {
            Ok(mut command) => {
                execute(&mut command).at(format_args!("{}/{}", peer.folder, peer.name))?;
                println!("built {}", program.display());
            }
            Err(lack) => {
                let line = format!("{} left out: {lack}", peer.name);
                println!("{line}");
                left_out.push(line);
            }
        }
    }
    Ok(left_out)
}

/// The packages of the headers that `has` does not find.
fn missing_packages(has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let missing = |peer: &Peer| match peer.needs {
        Needs::C { header, package, .. } if !has(header) => Some(package),
        _ => None,
    };
    let mut packages: Vec<&str> = PEERS.iter().filter_map(missing).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// The command that makes `program` of a peer, or what the machine lacks for the peer.
fn compiler(workspace: &Workspace, peer: &Peer, program: &Path) -> Result<Command> {
    let folder = workspace.root.join(peer.folder);
    match peer.needs {
        Needs::C { library, header, package } => {
            if !Path::new(header).is_file() {
                let remedy = format_args!("install Debian's {package}");
                return Err(Failure::lack(format_args!("no {header}"), remedy));
            }
            let cc = tools::find("cc")
                .ok_or_else(|| Failure::lack("no C compiler `cc`", "install Debian's gcc"))?;
            let mut command = Command::new(cc);
            command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"]);
            command.arg(program).arg(folder.join(peer.name).with_extension("c")).arg(library);
            Ok(command)
        }
        Needs::Go => {
            let go = go().ok_or_else(|| {
                Failure::lack("no `go`, neither on the path nor in /usr/local/go", "install Go")
            })?;
            let mut command = Command::new(go);
            // Any version of Go is good enough. Go must not fetch another version.
            command.env("GOTOOLCHAIN", "local").args(["build", "-o"]).arg(program);
            command.arg(folder.join(peer.name).with_extension("go"));
            Ok(command)
        }
    }
}

/// The path of Go. Go's own installer uses a folder outside PATH.
fn go() -> Option<PathBuf> {
    let installed = PathBuf::from("/usr/local/go/bin/go");
    tools::find("go").or_else(|| installed.is_file().then_some(installed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        assert_eq!(missing_packages(|_| true), [""; 0]);
        assert_eq!(missing_packages(|header| !header.contains("pth.h")), ["libpth-dev"]);
    }

    #[test]
    fn every_peer_has_its_source_and_no_source_is_forgotten() {
        let folder = Workspace::locate().root.join("peers");
        let mut sources: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|kind| kind == "c" || kind == "go"))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        sources.sort();
        let here = PEERS.iter().filter(|peer| peer.folder == "peers");
        let mut names: Vec<&str> = here.map(|peer| peer.name).collect();
        names.sort_unstable();
        assert_eq!(sources, names);
    }

    #[test]
    fn what_is_lacking_is_named() {
        let workspace = Workspace::locate();
        let peer = c("st", "-lst", "/nowhere/st.h", "libst-dev");
        let lack = compiler(&workspace, &peer, Path::new("st")).unwrap_err().to_string();
        assert!(lack.contains("/nowhere/st.h") && lack.contains("libst-dev"), "{lack}");
    }
}
