//! Memory of a parked task: what the process grows by when so many tasks are started and all wait.
//!
//! Counted is the process's own anonymous memory, so a stack counts with the pages that it has
//! touched. What the kernel keeps for a kernel thread (its stack there, some 16 KiB) or for page
//! tables is not in it.

use std::fs;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duality_runtime::task;

use crate::{Reading, Unit, World};

/// The most kernel threads that are started: limits on them are far below those of the other
/// worlds.
const KERNEL_THREADS: u64 = 4000;

/// Parks `count` tasks, or as many as there can be, which the reading tells.
///
/// They wait until the process ends, kernel threads even when this has returned.
pub(crate) fn parked(world: World, count: u64) -> io::Result<Reading> {
    let count = if world == World::Block { count.min(KERNEL_THREADS) } else { count };
    world.run(async move {
        // What is made once, for the first task, is not a task's cost.
        park(16).await;
        let before = own_memory()?;
        let parked = park(count).await;
        let grown = own_memory()?.saturating_sub(before);
        match parked {
            0 => Err(io::Error::other("no task could be started")),
            parked => Ok(Reading::new(parked, u128::from(grown), Unit::Bytes)),
        }
    })?
}

/// Starts `count` tasks that wait for ever, and returns how many there could be once all of them
/// do.
async fn park(count: u64) -> u64 {
    let waiting = Arc::new(AtomicU64::new(0));
    let mut started = 0;
    while started < count {
        let waiting = waiting.clone();
        let task = async move {
            waiting.fetch_add(1, Ordering::Relaxed);
            pending::<()>().await;
        };
        if task::spawn(task).is_err() {
            break;
        }
        started += 1;
    }
    while waiting.load(Ordering::Relaxed) < started {
        task::yield_now().await;
    }
    started
}

/// This process's anonymous memory, in bytes (proc_pid_smaps(5)).
fn own_memory() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let missing = || io::Error::other("/proc/self/smaps_rollup has no line `Anonymous: N kB`");
    Ok(kibibytes.ok_or_else(missing)? * 1024)
}
