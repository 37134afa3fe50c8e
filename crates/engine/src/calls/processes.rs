//! Threads and processes begin and end: clone, fork, exec, exit.

use alloc::vec::Vec;

use core::sync::atomic::{AtomicBool, Ordering};

use crate::calls::buckets;
use crate::calls::credentials;
use crate::calls::futex;
use crate::descriptors::closed;
use crate::descriptors::engine_files;
use crate::descriptors::registry;
use crate::kernel::frame::{Frame, duality_thread_start, initial_context};
use crate::kernel::lock::{Held, Locked, lock};
use crate::kernel::settings;
use crate::kernel::stats;
use crate::kernel::sys::{self, EAGAIN, EFAULT, EINVAL, sys};
use crate::kernel::undelivered;
use crate::kernel::user;
use crate::schedule::attributes;
use crate::schedule::idle;
use crate::schedule::loops;
use crate::schedule::scheduler;
use crate::schedule::stacks::STACKS;
use crate::schedule::thread::{self, MAIN, THREADS, Thread, ThreadRef};
use crate::schedule::ticks;
use crate::schedule::waiter::State;
use crate::schedule::worker::{self, current, worker};
use crate::show::report;
use crate::signals::flood;
use crate::signals::handling;
use crate::signals::masks;
use crate::workers::helpers;
use crate::workers::more_workers;

const THREAD_FLAGS: u64 = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;
const VM: u64 = libc::CLONE_VM as u64;
const VFORK: u64 = libc::CLONE_VFORK as u64;
/// `CLONE_CLEAR_SIGHAND` of clone3(2).
const CLEAR_SIGHAND: u64 = 1 << 32;

/// Another process shares our memory and may execute in it at any time.
pub(crate) static MEMORY_IS_SHARED: AtomicBool = AtomicBool::new(false);

/// Another process has the same table of descriptors. So the engine's own descriptors must be
/// closed at the end.
static FILES_ARE_SHARED: AtomicBool = AtomicBool::new(false);

/// The properties that a clone asks for.
struct CloneArguments {
    flags: u64,
    stack: usize,
    /// The lower end of the stack, or zero.
    stack_end: usize,
    parent_id: usize,
    child_id: usize,
    storage: usize,
}

/// clone(2)
pub(crate) fn clone(frame: &mut Frame) -> isize {
    let request = CloneArguments {
        flags: frame.argument(0) as u64,
        stack: frame.argument(1),
        stack_end: 0,
        parent_id: frame.argument(2),
        child_id: frame.argument(3),
        storage: frame.argument(4),
    };
    make(frame, &request)
}

/// clone3(2)
pub(crate) fn clone3(frame: &mut Frame) -> isize {
    if frame.argument(1) < 64 {
        return EINVAL;
    }
    match user::read::<[u64; 11]>(frame.argument(0)).or_else(|_| {
        user::read::<[u64; 8]>(frame.argument(0)).map(|eight| {
            let mut arguments = [0; 11];
            arguments[..8].copy_from_slice(&eight);
            arguments
        })
    }) {
        Err(fault) => fault,
        Ok([flags, _, child_id, parent_id, _, stack, size, storage, ..]) => {
            let request = CloneArguments {
                flags,
                stack: (stack + size) as usize,
                stack_end: stack as usize,
                parent_id: parent_id as usize,
                child_id: child_id as usize,
                storage: storage as usize,
            };
            make(frame, &request)
        }
    }
}

fn make(frame: &mut Frame, request: &CloneArguments) -> isize {
    if request.flags & THREAD_FLAGS == THREAD_FLAGS {
        return thread(frame, request).unwrap_or_else(|error| error);
    }
    if request.flags & VM != 0 {
        // Without CLONE_VFORK, the other process uses our memory for as long as it likes.
        MEMORY_IS_SHARED.fetch_or(request.flags & VFORK == 0, Ordering::Relaxed);
        return vfork(frame);
    }
    fork_as(frame, request).unwrap_or_else(|error| error)
}

/// A clone that makes a process with memory of its own.
fn fork_as(frame: &mut Frame, request: &CloneArguments) -> Result<isize, isize> {
    // The child begins here too, on the copy of this stack. The stack that the clone asks for is
    // the program's.
    let mut plain = *frame;
    let mut arguments: [u64; 11] = [0; 11];
    if request.stack == 0 {
        // The engine need not handle anything that the clone asks for.
    } else if frame.number() == libc::SYS_clone3 {
        let words = (frame.argument(1) / 8).min(arguments.len());
        user::read_slice(frame.argument(0), &mut arguments[..words])?;
        if arguments[5] == 0 || arguments[6] == 0 {
            return Err(EINVAL);
        }
        arguments[5..7].fill(0);
        plain.set_argument(0, arguments.as_ptr() as usize);
        plain.set_argument(1, words * 8);
    } else {
        plain.set_argument(1, 0);
    }
    let shares_files = request.flags & libc::CLONE_FILES as u64 != 0;
    let mut locked = lock();
    let result = make_process(&plain);
    match result {
        0 => {
            become_child(&mut locked, shares_files);
            if request.flags & CLEAR_SIGHAND != 0 {
                handling::clear_handlers(&mut locked);
            }
            if request.flags & libc::CLONE_SETTLS as u64 != 0 {
                MAIN.fs.set(request.storage);
            }
            if request.stack != 0 {
                if frame.keeps_vectors() {
                    frame.go_on_at(user::read(frame.stack() + 8)?);
                }
                frame.set_stack(request.stack);
            }
        }
        1.. => registry::share_all(false),
        _ => {}
    }
    Ok(result)
}

/// vfork(2), posix_spawn(3): the child borrows our memory until it executes a program.
///
/// The worker stays inside the engine, so that the thread is not moved to another one before the
/// call. The child's first call clears the mark.
pub(crate) fn vfork(frame: &mut Frame) -> isize {
    worker().vfork_parent.set(MAIN.id.get());
    // The child inherits the signals that the kernel blocks. From here on, no signal changes that
    // mask.
    flood::unseal();
    frame.leave_to_kernel()
}

/// Makes the child of a fork. The child forgets the signals that wait for the parent before any of
/// its own can come: the kernel blocks all signals meanwhile.
fn make_process(frame: &Frame) -> isize {
    let (all, mut before) = (u64::MAX, 0u64);
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &all, &mut before, 8);
    let result = crate::HEAP.while_locked(|| frame.pass());
    if result == 0 {
        undelivered::reset_after_fork();
    }
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &before, 0, 8);
    result
}

/// fork(2)
pub(crate) fn fork(frame: &mut Frame) -> isize {
    // Otherwise, data that another worker is changing would stay half changed in the child.
    let mut locked = lock();
    let result = make_process(frame);
    match result {
        0 => become_child(&mut locked, false),
        1.. => registry::share_all(false),
        _ => {}
    }
    result
}

fn thread(frame: &Frame, request: &CloneArguments) -> Result<isize, isize> {
    // The engine does not hold the lock here: the kernel has yet to find memory for the new stack.
    let place = first_frame(frame, request)?;
    let mut locked = lock();
    let Some(child) = thread::create(&mut locked) else { return Err(EAGAIN) };
    let id = child.id.get();
    // SAFETY: a frame of the child's own is there.
    child.stack_pointer.set(unsafe { initial_context(place, duality_thread_start) });
    match prepare(&mut locked, request, child) {
        Ok(()) => {
            stats::THREADS_CREATED.add(1);
            more_workers::expect_threads(&mut locked);
            scheduler::enqueue(&mut locked, child);
            Ok(id as isize)
        }
        Err(error) => {
            thread::remove(&mut locked, child);
            Err(error)
        }
    }
}

/// Writes the first frame of a new thread to its stack. Returns its address.
fn first_frame(frame: &Frame, request: &CloneArguments) -> Result<usize, isize> {
    /// Bytes of the new stack that the dispatcher uses first.
    const ROOM: usize = 64;
    let mut begin = *frame;
    begin.set_stack(request.stack);
    if frame.keeps_vectors() {
        // The child does not need the parent's vector registers, because it goes on after the stub.
        begin.go_on_at(user::read(frame.stack() + 8)?);
    }
    let place = (request.stack - 128 - size_of::<Frame>()) & !15;
    // The stack must be there: the frame is written without a check of its address.
    let probe: u64 = user::read(place - ROOM)?;
    user::write(place - ROOM, &probe)?;
    // SAFETY: the frame is at the top of the new thread's own stack, which is writable.
    unsafe { (place as *mut Frame).write(begin) };
    Ok(place)
}

/// The state that a new thread gets from its parent, and from the request.
fn prepare(locked: &mut Locked, request: &CloneArguments, child: ThreadRef) -> Result<(), isize> {
    let parent = current();
    let asks = |flag: i32| request.flags & flag as u64 != 0;
    child.fs.set(if asks(libc::CLONE_SETTLS) { request.storage } else { parent.fs.get() });
    let held = locked.held();
    child.name.set(held, parent.name.get(held));
    child.affinity.set(held, parent.affinity.get(held));
    let inherited = attributes::inherited(locked, parent);
    child.attributes.set(locked.held(), inherited);
    child.stack_end.set(STACKS.of(locked).end_of(request.stack_end));
    // clone(2) does not say how long the stack is. Calls from farther down are right, too.
    const MOSTLY: usize = 256 << 10;
    let low = if request.stack_end == 0 {
        request.stack.saturating_sub(MOSTLY)
    } else {
        request.stack_end
    };
    child.set_stack(low..request.stack);

    let id = child.id.get();
    if asks(libc::CLONE_PARENT_SETTID) {
        user::write(request.parent_id, &id)?;
    }
    if asks(libc::CLONE_CHILD_SETTID) {
        user::write(request.child_id, &id)?;
    }
    if asks(libc::CLONE_CHILD_CLEARTID) {
        child.clear_id.set(request.child_id);
    }
    child.mask.set(parent.mask.get());
    masks::count_thread(locked, child.mask.get(), true);
    Ok(())
}

/// exit(2): one thread ends.
pub(crate) fn exit(frame: &mut Frame) -> isize {
    let mut locked = lock();
    let thread = current();
    futex::give_up_robust(&mut locked, thread);
    if THREADS.of(&mut locked).alive == 1 {
        // A filter of system calls may allow this call alone.
        let alone = worker::count(&mut locked) == 1 && !helpers::exist();
        drop(locked);
        report::at_exit();
        if alone {
            frame.pass();
        }
        sys::exit_group(frame.argument(0) as i32);
    }
    masks::count_thread(&mut locked, thread.mask.get(), false);
    scheduler::leave_for_good(locked)
}

/// This runs on the worker's own stack, after the thread's stack has been left: the joining thread
/// may reuse that stack.
pub(crate) fn finish_thread(locked: &mut Locked, thread: ThreadRef) {
    let word = thread.clear_id.replace(0);
    thread::remove(locked, thread);
    if word != 0 {
        futex::clear_and_wake(locked, word);
    }
}

/// exit_group(2)
pub(crate) fn exit_group(frame: &mut Frame) -> isize {
    report::at_exit();
    if FILES_ARE_SHARED.load(Ordering::Relaxed) {
        engine_files::close();
    }
    let mut locked = lock();
    let mut each = thread::each(&mut locked);
    while let Some(thread) = each.next(locked.held()) {
        futex::give_up_robust(&mut locked, thread);
    }
    frame.pass()
}

/// In the child of a fork: only the current thread is left, and becomes the main thread.
fn become_child(locked: &mut Locked, shares_files: bool) {
    let thread = current();
    scheduler::reset_after_fork(locked);
    if loops::exist(locked) {
        loops::reset_after_fork(locked);
        buckets::forget_tasks(locked);
    }
    idle::reset_after_fork(locked);
    more_workers::reset_after_fork(locked);
    let others: Vec<ThreadRef> = thread::all(locked).filter(|other| !other.is(thread)).collect();
    for other in others {
        buckets::remove(locked, other);
        thread::remove(locked, other);
    }
    attributes::become_child(locked, thread);
    let affinity = thread.affinity.get(locked.held());
    MAIN.affinity.set(locked.held(), [0; 2]);
    if affinity != [0, 0] {
        sys!(SYS_sched_setaffinity, 0, size_of_val(&affinity), &affinity);
    }
    if !thread.is(&MAIN) {
        inherit(locked.held(), thread);
        thread::remove(locked, thread);
        THREADS.of(locked).alive = 1;
        worker().current.set(&MAIN);
    }
    MAIN.state.set(locked.held(), State::Running);
    MAIN.pending.of(locked).clear();
    MAIN.pending_bits.store(0, Ordering::Relaxed);
    let id = sys!(SYS_getpid) as i32;
    MAIN.id.set(id);
    THREADS.of(locked).number_for(id);
    worker().kernel_id.set(id);
    helpers::reset_after_fork(locked);
    credentials::reset_after_fork(locked);
    ticks::reset_after_fork();
    flood::reset_after_fork();
    FILES_ARE_SHARED.store(shares_files, Ordering::Relaxed);
    if shares_files {
        engine_files::leave_to_parent();
    } else {
        engine_files::close();
    }
    closed::reset_after_fork(locked);
    registry::share_all(true);
    if engine_files::open(locked).is_err() {
        sys::complain(b"duality run: no descriptor is left for the engine after fork(2)\n");
    }
    handling::reset_after_fork(locked);
}

/// The main thread's place is taken by the thread that forked.
fn inherit(held: Held<'_>, thread: &Thread) {
    MAIN.fs.set(thread.fs.get());
    // This may be executing on the thread's stack of the engine.
    MAIN.take_stacks_of(thread);
    MAIN.clear_id.set(thread.clear_id.get());
    MAIN.robust_list.set(thread.robust_list.get());
    MAIN.mask.set(thread.mask.get());
    MAIN.mask_after.set(thread.mask_after.get());
    MAIN.alternate_stack.set(thread.alternate_stack.get());
    MAIN.name.set(held, thread.name.get(held));
    MAIN.loop_number.set(thread.loop_number.get());
    MAIN.turn.set(thread.turn.get());
    MAIN.mask_word.set(thread.mask_word.get());
}

/// execve(2) and execveat(2): the new program runs with the engine, if the settings say so.
pub(crate) fn execve(frame: &mut Frame) -> isize {
    // The new program inherits this thread's signal mask.
    let mask = current().mask.get();
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &mask, 0, 8);
    let follows = settings::follows_exec(MAIN.id.get());
    let result = if follows { execve_with_engine(frame) } else { frame.pass() };
    masks::adopt();
    result
}

/// Executes a program with the engine's variables in its environment.
pub(crate) fn execve_with_engine(frame: &Frame) -> isize {
    let plain = frame.number() == libc::SYS_execve;
    let environment = if plain { frame.argument(2) } else { frame.argument(3) };
    match settings::environment_with_engine(environment) {
        Ok(list) if plain => sys!(SYS_execve, frame.argument(0), frame.argument(1), list.address()),
        Ok(list) => {
            sys!(
                SYS_execveat,
                frame.argument(0),
                frame.argument(1),
                frame.argument(2),
                list.address(),
                frame.argument(4)
            )
        }
        Err(_) => EFAULT,
    }
}
