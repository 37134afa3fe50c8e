//! Calls by which threads query and change the numbers, names and processors of threads.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::calls::attributes;
use crate::descriptors::ring;
use crate::kernel::frame::Frame;
use crate::kernel::lock::{Locked, lock};
use crate::kernel::settings;
use crate::kernel::sys::{self, EINVAL, failed, sys};
use crate::kernel::user;
use crate::schedule::every_worker;
use crate::schedule::thread::{self, MAIN, ThreadRef, is_ours};
use crate::schedule::worker::{current, worker};
use crate::workers::helpers;

/// gettid(2)
pub(crate) fn gettid(_: &mut Frame) -> isize {
    current().id.get() as isize
}

/// set_tid_address(2)
pub(crate) fn set_tid_address(frame: &mut Frame) -> isize {
    current().clear_id.set(frame.argument(0));
    current().id.get() as isize
}

/// set_robust_list(2)
pub(crate) fn set_robust_list(frame: &mut Frame) -> isize {
    if frame.argument(1) != 24 {
        return EINVAL;
    }
    current().robust_list.set(frame.argument(0));
    // The kernel walks the main thread's list when the process is killed.
    let kernel_knows = current().is(&MAIN) && worker().kernel_id.get() == MAIN.id.get();
    if kernel_knows { frame.pass() } else { 0 }
}

/// get_robust_list(2)
pub(crate) fn get_robust_list(frame: &mut Frame) -> isize {
    let id = frame.argument(0) as i32;
    let thread = if id == 0 { Some(current()) } else { thread::find(&mut lock(), id) };
    let Some(thread) = thread else { return frame.pass() };
    let written = user::write(frame.argument(1), &thread.robust_list.get())
        .and_then(|()| user::write(frame.argument(2), &24usize));
    written.map_or_else(|fault| fault, |()| 0)
}

/// rseq(2). The area of the main thread is the kernel's if there is one worker. In all other cases,
/// the engine tells the thread that there is none.
pub(crate) fn rseq(frame: &mut Frame) -> isize {
    const UNREGISTER: usize = 1;
    const REGISTRATION_FAILED: i32 = -2;
    if current().is(&MAIN) && settings::CORES.get() < 2 {
        return frame.pass();
    }
    if frame.argument(2) & UNREGISTER == 0 {
        // An error would end the program, because libc aborts if rseq(2) works for one thread
        // alone.
        let written = user::write(frame.argument(0), &[0i32, REGISTRATION_FAILED]);
        return written.map_or_else(|fault| fault, |()| 0);
    }
    0
}

/// prctl(2): names belong to threads.
pub(crate) fn prctl(frame: &mut Frame) -> isize {
    const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
    let thread = current();
    match frame.argument(0) as i32 {
        libc::PR_SET_SECCOMP => {
            ring::retire(&mut lock());
            frame.pass()
        }
        // This option would trap the engine's calls, but not the program's calls that the engine
        // answers. So the engine behaves as a kernel without it.
        PR_SET_SYSCALL_USER_DISPATCH => EINVAL,
        libc::PR_SET_NAME => {
            let mut name = [0; 16];
            if let Err(fault) = user::read_text(frame.argument(1), &mut name[..15]) {
                return fault;
            }
            thread.name.set(lock().held(), name);
            if thread.is(&MAIN) { frame.pass() } else { 0 }
        }
        libc::PR_GET_NAME if !thread.is(&MAIN) => {
            let name = thread.name.get(lock().held());
            user::write(frame.argument(1), &u128::from_ne_bytes(name))
                .map_or_else(|fault| fault, |()| 0)
        }
        libc::PR_GET_TIMERSLACK => attributes::timer_slack(frame),
        libc::PR_SET_TIMERSLACK => attributes::set_timer_slack(frame),
        // set_tid_address(2): the word that is cleared when the thread ends.
        libc::PR_GET_TID_ADDRESS => user::write(frame.argument(1), &thread.clear_id.get())
            .map_or_else(|fault| fault, |()| 0),
        option if OF_CREDENTIALS.contains(&option) => {
            let result = frame.pass();
            if !failed(result) {
                every_worker::everywhere(frame.number(), frame.arguments());
                helpers::retire();
            }
            result
        }
        _ => frame.pass(),
    }
}

/// Options of prctl(2) that change the credentials of a thread. As for users and groups, all
/// threads have the same here. A thread that has given up a privilege must not get it back from the
/// next worker.
const OF_CREDENTIALS: [i32; 5] = [
    libc::PR_SET_KEEPCAPS,
    libc::PR_SET_SECUREBITS,
    libc::PR_CAPBSET_DROP,
    libc::PR_CAP_AMBIENT,
    libc::PR_SET_NO_NEW_PRIVS,
];

/// seccomp(2): from here on, the program's filter also applies to the engine's calls.
pub(crate) fn seccomp(frame: &mut Frame) -> isize {
    const SET_MODE_FILTER: usize = 1;
    if frame.argument(0) <= SET_MODE_FILTER {
        ring::retire(&mut lock());
    }
    frame.pass()
}

/// arch_prctl(2)
pub(crate) fn arch_prctl(frame: &mut Frame) -> isize {
    const ARCH_SET_GS: usize = 0x1001;
    const ARCH_SET_FS: usize = 0x1002;
    if frame.argument(0) == ARCH_SET_GS {
        return sys::error(libc::EPERM);
    }
    let result = frame.pass();
    if frame.argument(0) == ARCH_SET_FS && result == 0 {
        current().fs.set(frame.argument(1));
    }
    result
}

/// The process has asked to be traced. From then on, the kernel must see the signals that the
/// process sends to itself.
pub(crate) static IS_TRACED: AtomicBool = AtomicBool::new(false);

/// ptrace(2): the kernel lets one thread control another process. The kernel thread may be another
/// worker's.
pub(crate) fn ptrace(frame: &mut Frame) -> isize {
    if frame.argument(0) as u32 == libc::PTRACE_TRACEME {
        IS_TRACED.store(true, Ordering::Relaxed);
    }
    match frame.pass() {
        sys::ESRCH => every_worker::until_done(frame.number(), frame.arguments(), sys::ESRCH),
        result => result,
    }
}

/// Calls with a thread as their first argument. A thread of ours stands for the worker.
pub(crate) fn about_thread(frame: &mut Frame) -> isize {
    match translated(frame.argument(0)) {
        Some(id) => {
            let mut other = *frame;
            other.set_argument(0, id);
            other.pass()
        }
        None => sys::ESRCH,
    }
}

/// Calls on a process, which any thread of the process stands for: kill(2), rt_sigqueueinfo(2),
/// process_vm_readv(2).
pub(crate) fn about_process(frame: &mut Frame) -> isize {
    match translated(frame.argument(0)) {
        Some(0) if frame.argument(0) != 0 => {
            let mut other = *frame;
            other.set_argument(0, MAIN.id.get() as usize);
            other.pass()
        }
        Some(_) => frame.pass(),
        None => sys::ESRCH,
    }
}

/// The kernel's number for a thread. For a living thread of ours, the number is zero, which means
/// the caller.
fn translated(id: usize) -> Option<usize> {
    if !is_ours(i64::from(id as i32)) {
        return Some(id);
    }
    thread::find(&mut lock(), id as i32).map(|_| 0)
}

/// sched_setaffinity(2): a thread of ours runs wherever its worker runs. The engine remembers the
/// CPUs that the thread asked for. If the program has one thread, all workers get them.
pub(crate) fn sched_setaffinity(frame: &mut Frame) -> isize {
    let mut locked = lock();
    let Some(thread) = named(&mut locked, frame.argument(0)) else {
        drop(locked);
        return about_thread(frame);
    };
    if thread::is_alone(&mut locked) {
        thread.affinity.set(locked.held(), [0; 2]);
        drop(locked);
        let arguments = [0, frame.argument(1), frame.argument(2), 0, 0, 0];
        let result = frame.with(frame.number(), arguments).pass();
        if !failed(result) {
            every_worker::everywhere(frame.number(), arguments);
        }
        return result;
    }
    let mut asked = [0u64; 2];
    let words = (frame.argument(1) / 8).min(2);
    if let Err(fault) = user::read_slice(frame.argument(2), &mut asked[..words]) {
        return fault;
    }
    let usable = match usable_affinity(asked) {
        Ok(usable) => usable,
        Err(refused) => return refused,
    };
    thread.affinity.set(locked.held(), usable);
    0
}

/// The living thread of ours that a call names.
fn named(locked: &mut Locked, id: usize) -> Option<ThreadRef> {
    if id as i32 == 0 { Some(current()) } else { thread::find(locked, id as i32) }
}

/// The requested CPUs that the kernel would grant. The engine finds out by a trial call.
fn usable_affinity(asked: [u64; 2]) -> Result<[u64; 2], isize> {
    let mut before = [0u64; 128];
    let known = sys!(SYS_sched_getaffinity, 0, size_of_val(&before), &mut before);
    let refused = sys!(SYS_sched_setaffinity, 0, size_of_val(&asked), &asked);
    if failed(known) || failed(refused) {
        return Err(refused);
    }
    let mut granted = [0u64; 128];
    sys!(SYS_sched_getaffinity, 0, size_of_val(&granted), &mut granted);
    sys!(SYS_sched_setaffinity, 0, known, &before);
    Ok([granted[0], granted[1]])
}

/// sched_getaffinity(2)
pub(crate) fn sched_getaffinity(frame: &mut Frame) -> isize {
    let mut locked = lock();
    let asked = named(&mut locked, frame.argument(0));
    let asked = asked.map_or([0, 0], |thread| thread.affinity.get(locked.held()));
    drop(locked);
    let result = about_thread(frame);
    if !failed(result) && asked != [0, 0] {
        let words = (result as usize / 8).min(2);
        let zeros = [0u64; 16];
        let _cleared =
            user::write_slice(frame.argument(2), &zeros[..(result as usize / 8).min(16)]);
        let _written = user::write_slice(frame.argument(2), &asked[..words]);
    }
    result
}
