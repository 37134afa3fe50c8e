//! The disk of a host: a folder, which a crash rolls back to what was synced.
//!
//! A write is in the file at once, and every reader sees it. fsync(2) makes the file's content
//! durable. A crash keeps all that was written since, nothing, or the first sectors of each block,
//! as the seed decides. Names are durable at once: files that were made, renamed or removed.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Network;
use crate::decisions::Kind;

/// The bytes that a disk writes as a whole, and those of a block of a file.
const SECTOR: usize = 512;
const BLOCK: usize = 4096;

/// A file under any name: its inode, and when it was made, since a later file may have the inode.
type Identity = (u64, Option<SystemTime>);

/// Files by their names.
type Files = BTreeMap<PathBuf, (Identity, Vec<u8>)>;

pub(crate) struct Disk {
    host: usize,
    folder: PathBuf,
    /// The durable content of each file. Only looked up, never walked.
    synced: HashMap<Identity, Vec<u8>>,
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

impl Network {
    /// Makes a folder the disk of a host. False if nothing tells which files are synced.
    pub(crate) fn add_disk(&mut self, host: usize, folder: &Path) -> io::Result<bool> {
        let folder = fs::canonicalize(folder)?;
        let synced = files(&folder).into_values().collect();
        let tells = std::mem::take(&mut self.has_seen_sync);
        if tells {
            self.disks.push(Disk { host, folder, synced, at_crash: None });
        }
        Ok(tells)
    }

    /// A file was synced. Whether it is on a simulated disk.
    pub(crate) fn synced(&mut self, path: &Path) -> bool {
        self.has_seen_sync = true;
        let on = |disk: &&mut Disk| path.starts_with(&disk.folder) && path != disk.folder;
        let Some(disk) = self.disks.iter_mut().find(on) else { return false };
        // What destructors sync after a crash comes too late.
        if disk.at_crash.is_none()
            && let Some((identity, content)) = read(path)
        {
            disk.synced.insert(identity, content);
            self.counts.synced += 1;
        }
        true
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
            for (path, (identity, content)) in written {
                let durable = synced.get(&identity).map_or(&[][..], Vec::as_slice);
                let content = self.kept(&path, durable, content);
                fs::write(&path, &content)?;
                self.disks[number].synced.extend(read(&path));
            }
        }
        Ok(())
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
        let name = path.file_name().unwrap_or_default().display().to_string();
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
