//! Services that Debian's packages bring. A package starts its service and enables it, on a port
//! that others can reach. Tests need programs alone, so xtask leaves no service behind.
//!
//! ```text
//!   Off::begin ── a policy that forbids starts ──▶ apt-get ──▶ Off::end: what is new is disabled
//! ```

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{fs, io};

use crate::failure::{At as _, Failure, Result};

/// Debian's tools ask this program before they start a service. Status 101 forbids the start.
const POLICY: &str = "usr/sbin/policy-rc.d";
/// The folder with links to enabled services, in folders such as `multi-user.target.wants`. Debian
/// makes the links without systemd, too.
const ENABLED: &str = "etc/systemd/system";

/// From its beginning to its end, packages start no service.
pub(crate) struct Off {
    root: PathBuf,
    /// The machine may have a policy of its own, which stays.
    policy: Option<PathBuf>,
    before: BTreeSet<String>,
}

impl Off {
    /// Forbids packages to start services. `root` is `/`, except in tests.
    ///
    /// # Errors
    ///
    /// Names the folder that cannot be read or the file that cannot be written.
    pub(crate) fn begin(root: &Path) -> Result<Self> {
        let before = enabled(root)?;
        let policy = root.join(POLICY);
        let is_ours = !policy.exists();
        if is_ours {
            // If xtask is killed, the file stays, and allows everything.
            let own = process::id();
            let text = format!("#!/bin/sh\n# Of `cargo xtask tools`.\nkill -0 {own} && exit 101\n");
            fs::write(&policy, format!("{text}exit 0\n")).at(policy.display())?;
            fs::set_permissions(&policy, fs::Permissions::from_mode(0o755)).at(policy.display())?;
        }
        Ok(Self { root: root.to_owned(), policy: is_ours.then_some(policy), before })
    }

    /// Disables the services that came since the beginning, and returns their names.
    ///
    /// # Errors
    ///
    /// Names the services that are still enabled, with the line that disables them.
    pub(crate) fn end(self, disable: impl Fn(&str)) -> Result<Vec<String>> {
        let came = self.came()?;
        came.iter().for_each(|name| disable(name));
        let left = self.came()?;
        if left.is_empty() {
            return Ok(came);
        }
        let remedy = format!("systemctl disable {}", left.join(" "));
        Err(Failure::from("services of the packages are enabled").remedy(remedy))
    }

    fn came(&self) -> Result<Vec<String>> {
        Ok(enabled(&self.root)?.difference(&self.before).cloned().collect())
    }
}

impl Drop for Off {
    fn drop(&mut self) {
        if let Some(policy) = &self.policy {
            let _ = fs::remove_file(policy);
        }
    }
}

/// Disables a service such as `nginx.service`, for systemd and for System V.
pub(crate) fn disable(service: &str) {
    let name = service.split('.').next().unwrap_or(service);
    for line in [["deb-systemd-helper", "disable", service], ["update-rc.d", name, "disable"]] {
        // `Off::end` looks whether the service is disabled.
        let _ = Command::new(line[0]).args(&line[1..]).output();
    }
}

/// The names of enabled services.
fn enabled(root: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for folder in list(&root.join(ENABLED))? {
        if folder.extension().is_some_and(|extension| extension == "wants") {
            let links = list(&folder)?;
            let services = links.iter().filter_map(|link| link.file_name());
            names.extend(services.map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(names)
}

/// What a folder has. A folder that is missing has nothing, and neither has a file.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Vec::new()),
        Err(error) => return Err(error).at(folder.display()),
    };
    entries.map(|entry| Ok(entry.at(folder.display())?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with a service that is enabled before anything is installed.
    fn machine(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("xtask-services-{name}-{}", process::id()));
        for folder in ["usr/sbin", "etc/systemd/system/multi-user.target.wants"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(link(&root, "ours.service"), "").unwrap();
        root
    }

    fn link(root: &Path, service: &str) -> PathBuf {
        root.join(ENABLED).join("multi-user.target.wants").join(service)
    }

    #[test]
    fn services_that_come_are_disabled_and_others_stay() {
        let root = machine("come");
        let off = Off::begin(&root).unwrap();
        let policy = root.join(POLICY);
        let status = Command::new(&policy).args(["nginx", "start"]).status().unwrap();
        assert_eq!(status.code(), Some(101));
        fs::write(link(&root, "nginx.service"), "").unwrap();
        let disable = |service: &str| fs::remove_file(link(&root, service)).unwrap();
        assert_eq!(off.end(disable), Ok(vec!["nginx.service".into()]));
        assert!(!policy.exists());
        assert!(link(&root, "ours.service").exists());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_stays_enabled_is_named_with_its_remedy() {
        let root = machine("stay");
        let off = Off::begin(&root).unwrap();
        fs::write(link(&root, "nginx.service"), "").unwrap();
        let failure = off.end(|_| ()).unwrap_err().to_string();
        fs::remove_dir_all(&root).unwrap();
        let remedy = "systemctl disable nginx.service";
        assert_eq!(failure, format!("services of the packages are enabled: {remedy}"));
    }

    #[test]
    fn a_policy_of_the_machine_stays() {
        let root = machine("policy");
        let policy = root.join(POLICY);
        fs::write(&policy, "its own").unwrap();
        drop(Off::begin(&root).unwrap());
        assert_eq!(fs::read_to_string(&policy).unwrap(), "its own");
        fs::remove_dir_all(&root).unwrap();
    }
}
