//! Tests the cache of the places of system calls: its permissions, and the effect of a wrong file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use duality_conformance::programs::finish;

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

/// Runs a program with this cache folder, and returns how many calls the engine replaced.
fn sites(cache: &Path, options: &[&str]) -> String {
    let mut command = Command::new(DUALITY);
    command.arg("run").args(options).args(["--stats", "--", "sh", "-c", "echo right"]);
    let output = finish(command.env("XDG_CACHE_HOME", cache));
    assert_eq!(output.stdout, b"right\n", "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let count = stderr.lines().next().and_then(|line| line.rsplit_once("sites "));
    count.expect("a count").1.to_owned()
}

fn files(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache.join("duality/sites")).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files
}

#[test]
fn what_is_kept_is_the_users_and_is_used_again() {
    let cache = tempfile::tempdir().expect("a folder");
    let searched = sites(cache.path(), &[]);
    let kept = files(cache.path());
    assert!(!kept.is_empty());
    for file in &kept {
        let mode = file.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    let written = |file: &PathBuf| file.metadata().and_then(|status| status.modified()).ok();
    let before: Vec<_> = kept.iter().map(written).collect();
    assert_eq!(sites(cache.path(), &[]), searched);
    // A file that was not used would have been written anew.
    assert_eq!(kept.iter().map(written).collect::<Vec<_>>(), before);
    assert_eq!(files(cache.path()), kept);
}

#[test]
fn a_wrong_file_is_not_used_and_is_written_anew() {
    let cache = tempfile::tempdir().expect("a folder");
    let searched = sites(cache.path(), &[]);
    let kept: Vec<(PathBuf, Vec<u8>)> = files(cache.path())
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).expect("readable")))
        .collect();
    let spoil = |change: &dyn Fn(&mut Vec<u8>)| {
        for (path, right) in &kept {
            let mut bytes = right.clone();
            change(&mut bytes);
            fs::write(path, bytes).expect("writable");
        }
        assert_eq!(sites(cache.path(), &[]), searched);
        for (path, right) in &kept {
            assert_eq!(&fs::read(path).expect("readable"), right, "{}", path.display());
        }
    };
    spoil(&Vec::clear);
    spoil(&|bytes| bytes.truncate(bytes.len() / 2));
    spoil(&|bytes| bytes.extend([0; 8]));
    for part in 0..8 {
        spoil(&|bytes| {
            let at = bytes.len() * part / 8;
            bytes[at] ^= 1;
        });
    }
    // Another object's file.
    if let [(first, _), (_, other), ..] = &kept[..] {
        fs::write(first, other).expect("writable");
        assert_eq!(sites(cache.path(), &[]), searched);
    }
}

#[test]
fn files_and_folders_of_others_are_not_used() {
    let cache = tempfile::tempdir().expect("a folder");
    let searched = sites(cache.path(), &[]);
    let kept = files(cache.path());
    // An empty list of sites with open permissions must change nothing.
    for file in &kept {
        fs::set_permissions(file, Permissions::from_mode(0o644)).expect("changed");
    }
    assert_eq!(sites(cache.path(), &[]), searched);
    for file in &kept {
        fs::remove_file(file).expect("removed");
    }
    let folder = cache.path().join("duality/sites");
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("changed");
    assert_eq!(sites(cache.path(), &[]), searched);
    assert_eq!(files(cache.path()), [] as [PathBuf; 0]);
}

#[test]
fn without_the_cache_nothing_is_written() {
    let cache = tempfile::tempdir().expect("a folder");
    sites(cache.path(), &["--no-cache"]);
    assert_eq!(files(cache.path()), [] as [PathBuf; 0]);
}

#[test]
fn the_folder_stays_bounded() {
    /// As in the engine: the most files that stay.
    const MOST: usize = 256;
    let cache = tempfile::tempdir().expect("a folder");
    let folder = cache.path().join("duality/sites");
    fs::create_dir_all(&folder).expect("writable");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let year_ago = hour_ago - Duration::from_secs(365 * 24 * 3600);
    let file = |name: &str, written: SystemTime| {
        let path = folder.join(name);
        let file = fs::File::create(&path).expect("writable");
        file.set_modified(written).expect("changed");
        path
    };
    let recent: Vec<PathBuf> =
        (0..2 * MOST).map(|at| file(&format!("{at:040x}"), hour_ago)).collect();
    let old = file(&"f".repeat(40), year_ago);
    let left_half_written = file(&format!("{}.abcdefgh", "e".repeat(40)), year_ago);
    let of_another = file("notes", year_ago);
    let folder_of_another = folder.join("d".repeat(40));
    fs::create_dir(&folder_of_another).expect("writable");
    // Several processes look at the folder at once.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| sites(cache.path(), &[]));
        }
    });
    assert!(!old.exists() && !left_half_written.exists());
    assert!(of_another.exists() && folder_of_another.exists());
    // Each of several processes may remove the oldest file that another one has just counted.
    let others = 2;
    let left = files(cache.path()).len() - others;
    assert!((MOST - 4..=MOST).contains(&left), "{left} files");
    // What was written just now stays.
    let stay = recent.iter().filter(|path| path.exists()).count();
    assert!((MOST - 10..MOST).contains(&stay), "{stay} of the older files");
    let written = |path: &PathBuf| path.metadata().and_then(|status| status.modified()).ok();
    let before: Vec<_> = files(cache.path()).iter().map(written).collect();
    sites(cache.path(), &[]);
    assert_eq!(files(cache.path()).iter().map(written).collect::<Vec<_>>(), before);
}
