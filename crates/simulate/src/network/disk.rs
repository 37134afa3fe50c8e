//! The disk of a host: a folder, which a crash rolls back to what was synced.
//!
//! A write is in the file at once, and every reader sees it. fsync(2) makes the file's content
//! durable. A crash keeps all that was written since, nothing, or the first sectors of each block,
//! as the seed decides. A sync of the folder makes names durable: files that were made, renamed or
//! removed. A crash keeps all names, or those of the last sync.
//!
//! A write may be short, or find the disk full for a while. A sync may fail, and makes nothing
//! durable then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Network, refused};
use crate::decisions::Kind;

/// The bytes that a disk writes as a whole, and those of a block of a file.
const SECTOR: usize = 512;
const BLOCK: usize = 4096;

/// The longest that a disk is full, in nanoseconds.
const FULL: u64 = 10_000_000_000;

/// A file under any name: its inode, and when it was made, since a later file may have the inode.
type Identity = (u64, Option<SystemTime>);

/// Files by their names.
type Files = BTreeMap<PathBuf, (Identity, Vec<u8>)>;

pub(crate) struct Disk {
    host: usize,
    folder: PathBuf,
    /// The durable content of each file. Only looked up, never walked.
    synced: HashMap<Identity, Vec<u8>>,
    /// The durable names.
    names: BTreeMap<PathBuf, Identity>,
    /// When there is room again.
    full_until: u64,
    /// The files at the moment of a crash, until the host is down.
    at_crash: Option<Files>,
}

/// The files of a folder. What goes while it is read is not there.
fn files(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter_map(|path| Some((read(&path)?, path))).map(|(file, path)| (path, file)).collect()
}

fn read(path: &Path) -> Option<(Identity, Vec<u8>)> {
    let status = fs::metadata(path).ok()?;
    Some(((status.ino(), status.created().ok()), fs::read(path).ok()?))
}

fn names(files: &Files) -> BTreeMap<PathBuf, Identity> {
    files.iter().map(|(path, (identity, _))| (path.clone(), *identity)).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().display().to_string()
}

impl Network {
    /// Makes a folder the disk of a host. False if nothing tells which files are synced.
    pub(crate) fn add_disk(&mut self, host: usize, folder: &Path) -> io::Result<bool> {
        let folder = fs::canonicalize(folder)?;
        let (files, full_until, at_crash) = (files(&folder), 0, None);
        let names = names(&files);
        let synced = files.into_values().collect();
        let tells = std::mem::take(&mut self.has_seen_sync);
        if tells {
            self.disks.push(Disk { host, folder, synced, names, full_until, at_crash });
        }
        Ok(tells)
    }

    /// How many bytes of a write of `count` bytes a file takes.
    pub(crate) fn write(&mut self, path: &Path, count: usize) -> io::Result<usize> {
        let has = |disk: &Disk| path.starts_with(&disk.folder) && disk.at_crash.is_none();
        let Some(number) = self.disks.iter().position(has) else { return Ok(count) };
        let chance = self.profile.full_disk;
        if self.happens(Kind::Disk, chance) {
            self.disks[number].full_until = self.now + 1 + self.draw(Kind::Disk, FULL);
        }
        if chance > 0 && self.now < self.disks[number].full_until {
            self.counts.full_disks += 1;
            self.tell(|_| format!("! no room for {}", name_of(path)));
            return Err(refused(libc::ENOSPC));
        }
        let moved = self.moved(count);
        if moved < count {
            self.counts.short_writes += 1;
            self.tell(|_| format!("! {} takes {moved} of {count} bytes", name_of(path)));
        }
        Ok(moved)
    }

    /// fsync(2) of a file or folder. `None` if it is on no simulated disk.
    pub(crate) fn sync(&mut self, path: &Path) -> Option<io::Result<()>> {
        self.has_seen_sync = true;
        let number = self.disks.iter().position(|disk| path.starts_with(&disk.folder))?;
        // What destructors sync after a crash comes too late.
        if self.disks[number].at_crash.is_some() {
            return Some(Ok(()));
        }
        if self.happens(Kind::Disk, self.profile.failed_sync) {
            self.counts.failed_syncs += 1;
            self.tell(|_| format!("! a sync of {} fails", name_of(path)));
            return Some(Err(refused(libc::EIO)));
        }
        let disk = &mut self.disks[number];
        if path == disk.folder {
            disk.names = names(&files(&disk.folder));
        } else if let Some((identity, content)) = read(path) {
            disk.synced.insert(identity, content);
            self.counts.synced += 1;
        }
        Some(Ok(()))
    }

    /// The host loses its power now. What its destructors do afterwards does not count.
    pub(crate) fn stop_disks(&mut self, host: usize) {
        for disk in self.disks.iter_mut().filter(|disk| disk.host == host) {
            disk.at_crash = Some(files(&disk.folder));
        }
    }

    /// The host is down. Its folders have what its disks have kept.
    pub(crate) fn roll_back(&mut self, host: usize) -> io::Result<()> {
        for number in 0..self.disks.len() {
            if self.disks[number].host != host {
                continue;
            }
            let Some(written) = self.disks[number].at_crash.take() else { continue };
            let synced = std::mem::take(&mut self.disks[number].synced);
            for path in files(&self.disks[number].folder).keys() {
                fs::remove_file(path)?;
            }
            // Files of their own: what is still open stays with the old ones.
            for (path, identity) in self.kept_names(number, &written) {
                let durable = synced.get(&identity).map_or(&[][..], Vec::as_slice);
                let mut of_names = written.values().filter(|(other, _)| *other == identity);
                let content = match of_names.next() {
                    Some((_, content)) => self.kept(&path, durable, content.clone()),
                    None => durable.to_vec(),
                };
                fs::write(&path, &content)?;
                self.disks[number].synced.extend(read(&path));
            }
            self.disks[number].names = names(&files(&self.disks[number].folder));
        }
        Ok(())
    }

    /// The names that a crash keeps.
    fn kept_names(&mut self, disk: usize, written: &Files) -> BTreeMap<PathBuf, Identity> {
        let (newest, durable) = (names(written), std::mem::take(&mut self.disks[disk].names));
        if self.profile.loses_names == 0 || newest == durable || self.draw(Kind::Disk, 2) == 0 {
            return newest;
        }
        let paths = newest.keys().chain(durable.keys()).collect::<BTreeSet<_>>();
        for path in paths.into_iter().filter(|path| newest.get(*path) != durable.get(*path)) {
            self.counts.lost_names += 1;
            let name = name_of(path);
            self.tell(|_| match durable.contains_key(path) {
                true => format!("! {name} is what it was when its folder was synced"),
                false => format!("! {name} is gone: its folder was not synced"),
            });
        }
        durable
    }

    /// What a crash keeps of a file.
    fn kept(&mut self, path: &Path, durable: &[u8], written: Vec<u8>) -> Vec<u8> {
        if self.profile.loses_writes == 0 || durable == written {
            return written;
        }
        let choice = self.draw(Kind::Disk, 3);
        if choice == 0 {
            return written;
        }
        let name = name_of(path);
        self.tell(|_| format!("! the disk loses what was written to {name}, and not synced"));
        if choice == 1 {
            self.counts.lost_writes += 1;
            return durable.to_vec();
        }
        let length = if self.draw(Kind::Disk, 2) == 0 { written.len() } else { durable.len() };
        let mut kept = durable.to_vec();
        kept.resize(length, 0);
        for from in (0..length.min(written.len())).step_by(BLOCK) {
            let to = (from + BLOCK).min(length).min(written.len());
            if kept[from..to] == written[from..to] {
                continue;
            }
            // All sectors of the block, or some, or none.
            let sectors = (to - from).div_ceil(SECTOR);
            let lost = self.draw(Kind::Disk, sectors as u64 + 1) as usize;
            let end = (from + (sectors - lost) * SECTOR).min(to);
            kept[from..end].copy_from_slice(&written[from..end]);
            self.counts.lost_writes += u64::from(lost > 0);
        }
        kept
    }
}
