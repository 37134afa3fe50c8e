//! Builds peers before they are measured, by the command of their plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use super::find;
use crate::failure::{Failure, Party};
use crate::record::Peer;

/// The placeholder of the program that the build makes.
pub(crate) const PROGRAM: &str = "{program}";

/// Builds the program of each peer that needs a build, in a folder. Returns the reasons why builds
/// failed, by the name of the peer.
pub fn build<'a>(peers: impl Iterator<Item = &'a Peer>, folder: &Path) -> BTreeMap<String, String> {
    let mut made = BTreeMap::new();
    for peer in peers.filter(|peer| !peer.build.is_empty()) {
        let outcome = || make(peer, &folder.join(&peer.name));
        made.entry(peer.name.clone()).or_insert_with(outcome);
    }
    made.into_iter()
        .filter_map(|(name, outcome)| Some((name, outcome.err()?.to_string())))
        .collect()
}

/// Builds one program. The error is one line.
fn make(peer: &Peer, program: &Path) -> Result<(), Failure> {
    let cannot = |why: String| Failure::new(Party::Machine, why).at("cannot be built");
    let program = program.to_string_lossy();
    let mut words = peer.build.iter().map(|word| word.replace(PROGRAM, &program));
    let name = words.next().unwrap_or_default();
    let compiler = find(&name).ok_or_else(|| cannot(format!("needs {name}")))?;
    let output = Command::new(compiler).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| cannot(format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let mut lines = errors.lines().map(str::trim).filter(|line| !line.is_empty());
    // A compiler writes warnings besides errors. After the linker's message, it also writes that
    // the linker has failed.
    let is_error = |line: &&str| line.contains("error:") && !line.contains("linker command failed");
    let error = lines.clone().find(is_error).or_else(|| lines.next());
    let message = error.map_or_else(|| output.status.to_string(), str::to_owned);
    let name = Path::new(&name).file_name().unwrap_or_default();
    Err(cannot(format!("{}: {message}", name.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::peers::ReadyMade;

    #[test]
    fn what_cannot_be_made_is_told_in_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let peer = |name: &str, build: &[&str]| Peer {
            name: name.to_owned(),
            build: build.iter().map(|&word| word.to_owned()).collect(),
            ..ReadyMade::named("nginx").unwrap().peer(false)
        };
        let peers = [
            peer("made", &["sh", "-c", "echo x > $0", PROGRAM]),
            peer("refused", &["sh", "-c", "echo a.c: 3 >&2; echo a.c: error: b >&2; exit 1"]),
            peer(
                "unlinked",
                &["sh", "-c", "echo ld: no -lx >&2; echo error: linker command failed >&2; exit 1"],
            ),
            peer("silent", &["sh", "-c", "exit 3"]),
            peer("alone", &["no-such-compiler", PROGRAM]),
            peer("there", &[]),
        ];
        let problems = build(peers.iter().chain(&peers), folder.path());
        assert!(folder.path().join("made").is_file());
        assert_eq!(problems["refused"], "cannot be built: sh: a.c: error: b");
        assert_eq!(problems["unlinked"], "cannot be built: sh: ld: no -lx");
        assert_eq!(problems["silent"], "cannot be built: sh: exit status: 3");
        assert_eq!(problems["alone"], "cannot be built: needs no-such-compiler");
        assert_eq!(problems.len(), 4);
    }
}
