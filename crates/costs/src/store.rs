//! The cost of a store for a process: before its first call, the process opens the file and reads
//! the schema.

use std::io;

use duality_architectures::common::children::Children;
use duality_architectures::usage;
use duality_runtime::block_on;
use duality_services::store::{Location, Options, Store, Synchronous};
use rustix::io::read;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::kernel::{fault, less, reap, time};
use crate::{Reading, Unit};

/// The extra time of a call that opens the file in a new process, compared with a process that has
/// the file open. Page faults do not count. As in a server, another process keeps the file open, so
/// no measured process is the last to close the file.
pub(crate) fn open(count: u64) -> io::Result<Reading> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    let location = Location::Sqlite { path, synchronous: Synchronous::Normal };
    let store = Store::new(&location, Options::default()).map_err(io::Error::other)?;
    let call = || block_on(store.find_entry("nobody")).map_err(io::Error::other);

    let [(is_open, opened), (stays, go)] =
        [pipe_with(PipeFlags::CLOEXEC)?, pipe_with(PipeFlags::CLOEXEC)?];
    let mut holder = Children::new()?;
    let mut ends = Some((opened, go));
    holder.start(|| {
        // The child drops its copy of `go`. Otherwise the child would wait for ever.
        let (opened, _) = ends.take().expect("taken in the child only");
        if call().is_ok() && rustix::io::write(&opened, b"x").is_ok() {
            let _ = read(&stays, &mut [0; 1]);
        }
    })?;
    let (opened, go) = ends.take().expect("taken in the child only");
    drop(opened);
    if read(&is_open, &mut [0; 1])? == 0 {
        return Err(io::Error::other(
            "a child could not open a store in the folder for temporary files",
        ));
    }

    let calling = |calls: u64| -> io::Result<Reading> {
        let before = usage::of_this_process().page_faults;
        let children = time(count, || {
            let mut child = Children::new()?;
            child.start(|| {
                for _ in 0..calls {
                    let _ = call();
                }
            })?;
            reap(&mut child)
        })?;
        let faults = usage::of_this_process().page_faults - before;
        Ok(less(children, fault(faults)?))
    };
    let (none, once, twice) = (calling(0)?, calling(1)?, calling(2)?);
    drop(go);
    reap(&mut holder)?;
    let total = (2 * once.total).saturating_sub(none.total + twice.total).max(1);
    Ok(Reading::new(count.max(1), u128::from(total), Unit::Nanoseconds))
}
