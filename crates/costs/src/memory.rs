//! The memory of a parked task: the growth of the process when many tasks start and all wait.
//!
//! Only the process's own anonymous memory counts, so only the touched pages of a stack count. The
//! kernel's memory for a kernel thread (a kernel stack of some 16 KiB) or for page tables does not
//! count.

use std::fs;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duality_runtime::task;

use crate::world::run;
use crate::{Reading, Unit, World};

/// The most kernel threads that are started. The limits of kernel threads are far below the limits
/// of other tasks.
const KERNEL_THREADS: u64 = 4000;

/// Parks `count` tasks, or as many as possible. The reading tells the number.
///
/// The tasks wait until the process ends. Kernel threads still wait after this function has
/// returned.
pub(crate) fn parked(world: World, count: u64) -> io::Result<Reading> {
    let count = if world == World::Block { count.min(KERNEL_THREADS) } else { count };
    run(world, async move {
        // One-time allocations for the first task do not count as the cost of a task.
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

/// Starts `count` tasks that wait for ever. Returns how many could be started, once all of them
/// wait.
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
