//! `serve --user`: a server that starts as root, for a port below 1024 or a log, and then gives
//! root up.
//!
//! ```text
//! root ──lower──▶ the service is opened: its store belongs to the user
//!      ──raise──▶ the listener is bound
//!      ──drop───▶ connections are served; there is no way back
//! ```

use std::net::SocketAddr;

use duality_runtime::log;
use nix::errno::Errno;
use nix::unistd::{
    Gid, Uid, User, geteuid, initgroups, setegid, seteuid, setgid, setresgid, setresuid, setuid,
};

use super::{Blame, Failure, Party};

/// The fate of root's privileges.
pub(super) struct Privileges {
    user: Option<(User, std::ffi::CString)>,
}

impl Privileges {
    /// For the user called `name`, or without a change of user.
    ///
    /// # Errors
    ///
    /// If this process is not root's, or there is no such user, or the user is root.
    pub(super) fn find(name: Option<&str>) -> Result<Self, Failure> {
        let Some(name) = name else { return Ok(Self { user: None }) };
        let misuse = |problem: &str| Err(Failure::misuse(format!("--user {name}: {problem}")));
        if !geteuid().is_root() {
            return misuse("only root can change its user: leave --user out");
        }
        let found =
            User::from_name(name).blame_at(Party::Machine, format_args!("--user {name}"))?;
        match found {
            None => misuse("there is no such user: choose a name of /etc/passwd"),
            Some(user) if user.uid.is_root() => misuse("this user is root: choose another"),
            Some(user) => {
                let name = std::ffi::CString::new(user.name.clone())
                    .map_err(|_| Failure::misuse("--user: the name has a zero byte"))?;
                Ok(Self { user: Some((user, name)) })
            }
        }
    }

    /// From now on, until [`raise`](Self::raise), opens and creates files as the user.
    pub(super) fn lower(&self) -> Result<(), Failure> {
        let Some((user, name)) = &self.user else { return Ok(()) };
        initgroups(name, user.gid)
            .and_then(|()| setegid(user.gid))
            .and_then(|()| seteuid(user.uid))
            .map_err(failed)
    }

    /// Root again.
    pub(super) fn raise(&self) -> Result<(), Failure> {
        if self.user.is_none() {
            return Ok(());
        }
        seteuid(Uid::from_raw(0)).and_then(|()| setegid(Gid::from_raw(0))).map_err(failed)
    }

    /// Gives the privileges up for good, in all kernel threads. Warns if a server stays root and
    /// listens at an `address` beyond this machine.
    pub(super) fn drop_for_good(self, address: Option<SocketAddr>) -> Result<(), Failure> {
        let Some((user, _)) = self.user else {
            let exposed = address.filter(|address| !address.ip().is_loopback());
            if let Some(address) = exposed.filter(|_| geteuid().is_root()) {
                log::warn(format_args!(
                    "this server runs as root and listens at {address}: give it a user by --user NAME"
                ));
            }
            return Ok(());
        };
        setresgid(user.gid, user.gid, user.gid)
            .and_then(|()| setresuid(user.uid, user.uid, user.uid))
            .map_err(failed)?;
        // The process must not be able to regain root.
        match (setuid(Uid::from_raw(0)), setgid(Gid::from_raw(0))) {
            (Err(Errno::EPERM), Err(Errno::EPERM)) => Ok(()),
            _ => Err(Failure::new(
                Party::Machine,
                "--user: the kernel lets this process be root again",
            )),
        }
    }
}

fn failed(error: Errno) -> Failure {
    Failure::new(Party::Machine, format!("--user: the kernel refuses to change the user: {error}"))
}
