//! The names of one rig: its namespaces, and the folder of its files.
//!
//! Namespaces belong to the machine and end at a reboot. So the folder is in /run, which also ends
//! at a reboot, and every work tree finds it. Paths in /run are also short enough for UNIX sockets.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(crate) const DEFAULT_NAME: &str = "duality";

/// The folder of all rigs. It stays: another rig may be about to make its own folder in it.
const FOLDER: &str = "/run/duality-hosts";

/// The folder in which iproute2 keeps named namespaces.
const NAMESPACES: &str = "/run/netns";

/// Several hosts that are made and removed together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rig {
    /// The rig's name, and the name of the interface by which this machine reaches the hosts.
    pub(crate) name: String,
}

impl Rig {
    /// The name and the namespace of a host.
    pub(crate) fn host(&self, number: usize) -> String {
        format!("{}-{number}", self.name)
    }

    /// The namespace of the bridge.
    pub(crate) fn switch(&self) -> String {
        format!("{}-switch", self.name)
    }

    /// The namespaces of this rig that exist, in any order.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(NAMESPACES) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| self.owns(name)).collect()
    }

    /// Whether the namespace of this name belongs to this rig.
    fn owns(&self, namespace: &str) -> bool {
        let rest = namespace.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| rest == "switch" || rest.parse::<usize>().is_ok())
    }

    pub(crate) fn folder(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }

    /// The path of a file of the folder.
    pub(crate) fn path(&self, file: &str) -> String {
        format!("{FOLDER}/{}/{file}", self.name)
    }

    /// Makes an empty folder, and removes what a crashed rig may have left.
    pub(crate) fn make_folder(&self) -> Result<(), String> {
        self.remove_folder()?;
        let folder = self.folder();
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
    }

    pub(crate) fn remove_folder(&self) -> Result<(), String> {
        let folder = self.folder();
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {error}", folder.display()))
            }
            _ => Ok(()),
        }
    }

    /// Writes a file that only root may read: some files hold keys.
    pub(crate) fn write(&self, file: &str, content: impl AsRef<[u8]>) -> Result<(), String> {
        let path = self.path(file);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&path).and_then(|mut file| file.write_all(content.as_ref()));
        written.map_err(|error| format!("cannot write {path}: {error}"))
    }

    pub(crate) fn read(&self, file: &str) -> Result<String, String> {
        let path = self.path(file);
        fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))
    }

    /// The flag that names this rig on a command line.
    pub(crate) fn flag(&self) -> String {
        if self.name == DEFAULT_NAME { String::new() } else { format!(" --name {}", self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rig_owns_its_namespaces_alone() {
        let rig = Rig { name: "duality".into() };
        for own in [rig.host(1), rig.host(100), rig.switch()] {
            assert!(rig.owns(&own), "{own}");
        }
        for other in ["duality", "duality-", "duality-2-1", "duality-two", "x-duality-1"] {
            assert!(!rig.owns(other), "{other}");
        }
    }
}
