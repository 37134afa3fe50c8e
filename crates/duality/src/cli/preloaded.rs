//! The object that answers `std`, ring and libraries of C during a simulation: the time, random
//! bytes, the number of processors. TLS draws its keys by it, so that a seed comes back.
//!
//! The command carries the object (the crate `duality-outside`, built by `build.rs`). It puts the
//! object into a file in memory, and becomes itself with `LD_PRELOAD` (ld.so(8)).

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use duality_simulate::outside;
use rustix::fs::{MemfdFlags, memfd_create};

use super::Failure;

/// The object. Empty in builds without TLS, and where the C library is not glibc.
static OBJECT: &[u8] = include_bytes!(env!("DUALITY_OUTSIDE"));

/// Set for the command that has the object, so that it does not become itself for ever.
const MARK: &str = "DUALITY_PRELOADED";

/// Has the object answered by simulations. The command starts again if it has no object yet.
///
/// # Errors
///
/// If this build has no object, or the dynamic linker does not load it.
pub(super) fn join() -> Result<(), Failure> {
    if outside::join_object() {
        return Ok(());
    }
    if OBJECT.is_empty() {
        let problem = "--tls: built without TLS, or without glibc: build with `--features rustls`";
        return Err(Failure::misuse(problem));
    }
    let error = match env::var_os(MARK) {
        Some(_) => io::Error::other("the dynamic linker has not loaded it; mount /proc"),
        None => start_again(),
    };
    Err(Failure::misuse(format!("--tls: the object for random bytes: {error}")))
}

/// Becomes the command with the object. Returns only if that fails.
fn start_again() -> io::Error {
    let prepared = || {
        // Inherited, since the dynamic linker opens it.
        let mut file = File::from(memfd_create("duality-outside", MemfdFlags::empty())?);
        file.write_all(OBJECT)?;
        io::Result::Ok((file, env::current_exe()?))
    };
    match prepared() {
        Ok((file, program)) => {
            let mut list = OsString::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            if let Some(before) = env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
                list.push(":");
                list.push(before);
            }
            let mut command = Command::new(program);
            command.args(env::args_os().skip(1)).env("LD_PRELOAD", list).env(MARK, "1").exec()
        }
        Err(error) => error,
    }
}
