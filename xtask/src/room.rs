//! Room on the disk for what the steps build. A compiler that runs out of room reports it in
//! obscure words, so room is looked for before each step.
//!
//! ```text
//!   target/debug   clippy, doc, cargo-test, convert-test ┐ a folder that no later step builds in
//!   target/loom    loom                                  ├ goes, if room is short
//!   target/fuzz    fuzz                                  ┘
//! ```

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::files::remove;

/// What a step leaves: a folder beneath the target directory, and the most bytes that the folder
/// has when the step is over.
#[derive(Clone, Copy)]
pub(crate) struct Build {
    pub(crate) folder: &'static str,
    pub(crate) bytes: u64,
}

/// Says how much `builds` take on the disk, for a user to stop before the first of them.
pub(crate) fn estimate(target: &Path, builds: &[Build]) -> String {
    let needed = gigabytes(all(builds, |folder| size(&target.join(folder))));
    let free = free(target).map_or("unknown".into(), gigabytes);
    format!("the steps build at most {needed} more in {} (free: {free})", target.display())
}

/// Makes sure that there is room for `rest`, the builds of this step and of those to come. If room
/// is short, removes the folders of `before` that none of these needs.
///
/// # Errors
///
/// Says how much is missing, and where.
pub(crate) fn make(target: &Path, before: &[Build], rest: &[Build]) -> Result {
    // Without a usable `df`, the build itself may fail for lack of room.
    let Some(mut free) = free(target) else { return Ok(()) };
    let needed = most(rest, |folder| size(&target.join(folder)));
    let unused =
        before.iter().filter(|build| rest.iter().all(|later| later.folder != build.folder));
    for Build { folder, .. } in unused {
        let path = target.join(folder);
        if free >= needed || !path.exists() {
            continue;
        }
        remove(&path)?;
        println!("removed {}, which no later step needs: room is short", path.display());
        free = self::free(target).unwrap_or(free);
    }
    if free >= needed {
        return Ok(());
    }
    let (needed, free) = (gigabytes(needed), gigabytes(free));
    let short = format!("the builds need {needed} more, and {} has {free} left", target.display());
    Err(Failure::from(short).remedy("make room, or set CARGO_TARGET_DIR"))
}

/// The most bytes that `builds` add at any time to what is there now, if each folder goes after its
/// last build.
fn most(builds: &[Build], now: impl Fn(&str) -> u64) -> u64 {
    let added = |at: usize| {
        let (begun, later) = (&builds[..=at], &builds[at..]);
        let folders: HashSet<&str> = later.iter().map(|build| build.folder).collect();
        let added = |folder| {
            let here = begun.iter().filter(|build| build.folder == folder);
            here.map(|build| build.bytes).max().unwrap_or(0).saturating_sub(now(folder))
        };
        folders.into_iter().map(added).sum()
    };
    (0..builds.len()).map(added).max().unwrap_or(0)
}

/// The bytes that `builds` add to what is there now, if each folder stays.
fn all(builds: &[Build], now: impl Fn(&str) -> u64) -> u64 {
    let mut folders = BTreeMap::new();
    for build in builds {
        let bytes = folders.entry(build.folder).or_insert(0);
        *bytes = build.bytes.max(*bytes);
    }
    folders.into_iter().map(|(folder, bytes)| bytes.saturating_sub(now(folder))).sum()
}

/// The bytes that the disk of a folder has left. The folder need not exist yet.
fn free(folder: &Path) -> Option<u64> {
    let folder = folder.ancestors().find(|folder| folder.exists())?;
    let mut df = Command::new("df");
    df.args(["--output=avail", "--block-size=1"]).arg(folder);
    available(&df.output().ok()?.stdout)
}

/// Reads the second line of `df --output=avail`.
fn available(said: &[u8]) -> Option<u64> {
    String::from_utf8_lossy(said).lines().nth(1)?.trim().parse().ok()
}

/// The bytes that a folder takes on the disk: cargo gives some files two names.
fn size(folder: &Path) -> u64 {
    fn sum(folder: &Path, seen: &mut HashSet<u64>) -> u64 {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .map(|entry| match entry.metadata() {
                Ok(about) if about.is_dir() => sum(&entry.path(), seen),
                Ok(about) if seen.insert(about.ino()) => about.blocks() * 512,
                _ => 0,
            })
            .sum()
    }
    sum(folder, &mut HashSet::new())
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn build(folder: &'static str, bytes: u64) -> Build {
        Build { folder, bytes }
    }

    #[test]
    fn a_folder_counts_from_its_first_build_to_its_last() {
        let nothing = |_: &str| 0;
        let builds = [build("a", 1), build("a", 5), build("b", 3), build("c", 4)];
        assert_eq!(most(&builds, nothing), 5);
        assert_eq!(all(&builds, nothing), 12);
        assert_eq!(all(&builds, |_| 3), 3);
        let builds = [build("a", 5), build("b", 3), build("a", 6), build("c", 2)];
        assert_eq!(most(&builds, nothing), 8);
        assert_eq!(most(&builds, |folder| if folder == "a" { 4 } else { 0 }), 4);
        assert_eq!(most(&builds, |_| 6), 0);
        assert_eq!(most(&[], nothing), 0);
    }

    #[test]
    fn what_no_later_step_needs_goes_before_a_step_is_refused() {
        let target = std::env::temp_dir().join(format!("xtask-room-{}", std::process::id()));
        for folder in ["debug", "loom"] {
            fs::create_dir_all(target.join(folder)).unwrap();
        }
        let there = |folder: &str| target.join(folder).exists();
        let estimate = estimate(&target, &[build("debug", 1 << 60)]);
        assert!(estimate.contains("at most 1152921504.6 GB more in /"), "{estimate}");
        let before = [build("debug", 1), build("loom", 1)];
        assert_eq!(make(&target, &before, &[build("debug", 1)]), Ok(()));
        assert!(there("debug") && there("loom"), "there is room for a byte");
        let refused = make(&target, &before, &[build("debug", 1 << 60)]).unwrap_err().to_string();
        assert!(refused.contains("need 1152921504.6 GB more"), "{refused}");
        assert!(there("debug") && !there("loom"));
        fs::remove_dir_all(&target).unwrap();
    }

    #[test]
    fn a_file_with_two_names_counts_once() {
        let folder = std::env::temp_dir().join(format!("xtask-size-{}", std::process::id()));
        fs::create_dir_all(folder.join("deps")).unwrap();
        fs::write(folder.join("deps/a"), vec![1; 100_000]).unwrap();
        fs::hard_link(folder.join("deps/a"), folder.join("a")).unwrap();
        let bytes = size(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn room_is_read_off_df() {
        assert_eq!(available(b"       Avail\n5254348800\n"), Some(5_254_348_800));
        assert_eq!(available(b"df: no such file\n"), None);
        assert_eq!(gigabytes(5_254_348_800), "5.3 GB");
    }
}
