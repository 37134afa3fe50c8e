//! Disks of hosts: writes that are short or find no room, syncs that fail, and what a crash loses.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duality_runtime::time;
use duality_simulate::{Failure, Faults, Net, Tally, Violation, seeds};

/// What a file holds that was written twice, and synced in between, after a crash.
#[test]
fn a_crash_loses_what_was_not_synced() {
    let seen = Arc::new(Mutex::new([0_u64; 3]));
    let counts = seen.clone();
    // The program expects no errors.
    let faults = Faults { full_disks: false, failed_syncs: false, ..Faults::ALL };
    let tally = seeds(0..60).in_both_waits().faults(faults).run(move |net| {
        let seen = seen.clone();
        async move {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let name = path.clone();
            let server = net.host("server", move || {
                let name = name.clone();
                async move {
                    if name.exists() {
                        return;
                    }
                    std::fs::write(&name, [b'1'; 10_000]).unwrap();
                    std::fs::File::open(&name).unwrap().sync_all().unwrap();
                    std::fs::write(&name, [b'2'; 9_000]).unwrap();
                    std::future::pending::<()>().await;
                }
            });
            assert!(server.keeps(folder.path()).unwrap(), "duality-outside tells of syncs");
            time::sleep(Duration::from_secs(1)).await;
            server.crash().restart_after(Duration::from_secs(1));
            time::sleep(Duration::from_secs(5)).await;
            let kept = std::fs::read(&path).unwrap();
            assert!(kept.len() == 9_000 || kept.len() == 10_000);
            // Sectors are written as a whole.
            for sector in kept.chunks(512) {
                let old = sector.iter().filter(|byte| **byte == b'1').count();
                let new = sector.iter().filter(|byte| **byte == b'2').count();
                assert!(new == 0 || old == 0 || (old, new) == (216, 296), "{old}, {new}");
            }
            let whole = |digit| kept.iter().all(|byte| *byte == digit);
            let place = if whole(b'2') { 0 } else { 1 + usize::from(!whole(b'1')) };
            seen.lock().unwrap()[place] += 1;
        }
    });
    let [new, old, torn] = *counts.lock().unwrap();
    assert!(new > 0 && old > 0 && torn > 0, "{new} are new, {old} are old, {torn} are torn");
    assert!(tally.counts.synced > 0 && tally.counts.lost_writes > 0, "{}", tally.counts);
}

/// What is wrong with a program that keeps numbers, each in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    Nothing,
    OneWrite,
    FullDiskIsNoError,
    SyncIsNotChecked,
    FolderIsNotSynced,
}

fn content(number: u32) -> String {
    format!("{number} {}\n", "x".repeat(2000))
}

/// Keeps a number: `Ok` acknowledges that it survives a crash.
fn keep(folder: &Path, number: u32, flaw: Flaw) -> io::Result<()> {
    let new = folder.join("new");
    let mut file = File::create(&new)?;
    let content = content(number);
    let written = match flaw {
        Flaw::OneWrite => file.write(content.as_bytes()).map(drop),
        _ => file.write_all(content.as_bytes()),
    };
    if flaw != Flaw::FullDiskIsNoError {
        written?;
    }
    let synced = file.sync_all();
    if flaw != Flaw::SyncIsNotChecked {
        synced?;
    }
    fs::rename(&new, folder.join(number.to_string()))?;
    match flaw {
        Flaw::FolderIsNotSynced => Ok(()),
        _ => File::open(folder)?.sync_all(),
    }
}

/// Keeps numbers through two crashes. Those that were acknowledged must be there.
async fn numbers_survive(net: Net, flaw: Flaw) -> Result<(), Violation> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path: PathBuf = folder.path().to_owned();
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let of_server = acknowledged.clone();
    let server = net.host("server", move || {
        let (path, acknowledged) = (path.clone(), of_server.clone());
        async move {
            loop {
                let number = acknowledged.lock().unwrap().len() as u32;
                if keep(&path, number, flaw).is_ok() {
                    acknowledged.lock().unwrap().push(number);
                }
                time::sleep(Duration::from_millis(200)).await;
            }
            #[expect(unreachable_code, reason = "the host runs until it crashes")]
            io::Result::Ok(())
        }
    });
    assert!(server.keeps(folder.path()).unwrap(), "duality-outside tells of syncs");
    for _ in 0..2 {
        time::sleep(Duration::from_millis(1000 + net.draw(3000))).await;
        server.crash().restart_after(Duration::from_secs(1));
    }
    time::sleep(Duration::from_millis(500)).await;
    for number in acknowledged.lock().unwrap().iter() {
        match fs::read_to_string(folder.path().join(number.to_string())) {
            Ok(kept) if kept == content(*number) => {}
            kept => {
                let length = kept.map(|kept| kept.len());
                return Err(format!("{number} was acknowledged, and there is {length:?}").into());
            }
        }
    }
    Ok(())
}

fn numbers(count: u64, flaw: Flaw) -> Result<Tally, Box<Failure>> {
    seeds(0..count).once().unshrunk().try_run(move |net| numbers_survive(net, flaw))
}

#[test]
fn what_is_synced_with_its_name_survives() {
    let counts = numbers(100, Flaw::Nothing).unwrap().counts;
    let seen = [counts.short_writes, counts.full_disks, counts.failed_syncs, counts.lost_names];
    assert!(seen.iter().all(|count| *count > 0), "{counts}");
}

#[test]
fn each_flaw_of_a_program_that_writes_is_found() {
    for flaw in
        [Flaw::OneWrite, Flaw::FullDiskIsNoError, Flaw::SyncIsNotChecked, Flaw::FolderIsNotSynced]
    {
        let found = numbers(1000, flaw).expect_err("a crash loses a number");
        assert!(found.why.contains("was acknowledged"), "{flaw:?}: {}", found.why);
    }
}

/// Faults of disks can be turned off, each by itself.
#[test]
fn what_is_turned_off_does_not_happen() {
    let faults = Faults { full_disks: false, lost_names: false, ..Faults::ALL };
    let run = |net| numbers_survive(net, Flaw::Nothing);
    let counts = seeds(0..30).once().faults(faults).run(run).counts;
    assert_eq!((counts.full_disks, counts.lost_names), (0, 0), "{counts}");
    let faults = Faults { failed_syncs: false, short: false, ..Faults::ALL };
    let counts = seeds(0..30).once().faults(faults).run(run).counts;
    assert_eq!((counts.failed_syncs, counts.short_writes), (0, 0), "{counts}");
}
