//! The name of a forked child's stage reaches the parent as text, wherever the child keeps it.
//!
//! One test in a process of its own, because the test forks.

use std::io::{Read, Write, pipe};

use duality_runtime::visibility::{self, ChildSlot, Wait};
use duality_runtime::{block_on, task};

#[test]
fn a_stage_that_a_child_has_named_by_itself_is_seen_by_the_parent() {
    let slot = ChildSlot::reserve();
    let (mut ready, mut is_ready) = pipe().unwrap();
    let (mut go, gone) = pipe().unwrap();
    // SAFETY: the child takes no lock that another thread may hold but malloc's, which fork(2)
    // leaves usable.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(gone);
        slot.occupy();
        block_on(async {
            // The name is so long that it has a mapping of its own, which the parent does not have.
            let name = format!("named by {}{}", std::process::id(), ": long".repeat(1 << 18));
            task::stage(Box::leak(name.into_boxed_str())).await;
            is_ready.write_all(b"!").unwrap();
            let _ = go.read(&mut [0]);
        });
        // SAFETY: it ends the process without running what belongs to the parent.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "fork(2) has failed");
    drop(is_ready);
    ready.read_exact(&mut [0]).unwrap();
    let seen = visibility::threads(usize::MAX).longest;
    let seen = seen.into_iter().find(|thread| i64::from(thread.process) == i64::from(child));
    let seen = seen.expect("the child runs a task");
    drop(gone);
    // SAFETY: it waits for the child alone, and writes nothing.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    assert_eq!(seen.wait, Wait::Nothing);
    let name = seen.stage.expect("the child has reached a stage");
    assert!(name.starts_with(&format!("named by {child}: long: long")), "{name:.60}");
}
