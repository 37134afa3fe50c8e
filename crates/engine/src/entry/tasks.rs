//! The calls of a converted program's runtime. No kernel uses the numbers of these calls: see
//! `engine.h`.

use crate::calls::buckets;
use crate::calls::futex;
use crate::descriptors::closed;
use crate::descriptors::registry;
use crate::entry::table::{CLASSES, Class};
use crate::kernel::clock::NEVER;
use crate::kernel::frame::Frame;
use crate::kernel::lock::{Locked, lock};
use crate::kernel::sys::{EAGAIN, EINTR, EINVAL, ENOSYS, NEEDS_THREAD, RESTART, SUSPENDED};
use crate::kernel::user;
use crate::schedule::converted;
use crate::schedule::loops::{self, MOST_LOOPS, Next};
use crate::schedule::processor_time;
use crate::schedule::scheduler::{self, park, park_through_signals, wake};
use crate::schedule::task::{Task, TaskRef};
use crate::schedule::thread::ThreadRef;
use crate::schedule::waiter::{Reason, State};
use crate::schedule::worker::current;
use crate::show::stall;
use crate::signals::handling;
use crate::workers::pump::count_call;

/// The number of the first call.
pub(crate) const FIRST: usize = 0x4455_0000;
const VERSION: isize = 4;
const MAKE_SPARE: isize = 1;
const END: isize = 2;

/// Whether `number` is the number of a call below.
pub(crate) fn is_ours(number: usize) -> bool {
    number & !0xff == FIRST
}

/// Executes a call of the runtime.
#[inline(never)]
pub(crate) fn call(frame: &Frame) -> isize {
    match frame.number() as usize - FIRST {
        0 => VERSION,
        1 => join_loop(frame),
        2 => next(frame.argument(0) != 0),
        3 => ready(frame),
        4 => attempt(frame),
        5 => wait(frame),
        6 => futex::wake_at(&mut lock(), frame.argument(0), frame.argument(1) as i32, futex::ANY),
        7 => interrupt(frame),
        8 => processor_time::of(&mut lock(), current()) as isize,
        9 => come_back(),
        10 => mask(frame.argument(0) as u64),
        _ => ENOSYS,
    }
}

/// The task that the runtime names.
fn task(frame: &Frame) -> TaskRef {
    // SAFETY: the runtime is part of the program, and gives its tasks, which it keeps while they
    // wait.
    unsafe { &*(frame.argument(0) as *const Task) }
}

fn join_loop(frame: &Frame) -> isize {
    if frame.argument(0) >= MOST_LOOPS {
        return EINVAL;
    }
    converted::learn(frame.argument(2));
    loops::join_loop(&mut lock(), frame.argument(0), frame.argument(1), frame.argument(3));
    0
}

/// The next task of the loop. Zero if a signal came first. One if the loop needs another thread.
/// Two if it has enough.
fn next(may_end: bool) -> isize {
    let Some(number) = loops::number() else { return EINVAL };
    count_call();
    let mut locked = lock();
    loop {
        match loops::next(&mut locked, number, may_end) {
            Next::Run(waiter) => {
                let task = Task::of(waiter);
                if let Some(nodes) = task.leave(&mut locked) {
                    closed::end_wait(&mut locked, &nodes);
                }
                buckets::remove(&mut locked, waiter);
                waiter.state.set(locked.held(), State::Running);
                return &raw const *task as isize;
            }
            Next::MakeSpare => return MAKE_SPARE,
            Next::End(other) => {
                scheduler::go_on(&mut locked, other);
                return END;
            }
            Next::Wait(other) => scheduler::go_on(&mut locked, other),
        }
        mask_spare(&mut locked, current());
        let reason = park(&mut locked, NEVER);
        if reason == Reason::Interrupted {
            loops::stop_waiting(&mut locked);
            return 0;
        }
    }
}

fn ready(frame: &Frame) -> isize {
    if frame.argument(1) >= MOST_LOOPS {
        return EINVAL;
    }
    let task = task(frame);
    // A thread may have made the call on a kept descriptor.
    closed::end_call(task);
    let mut locked = lock();
    task.adopt(frame.argument(1));
    let runner = loops::add(&mut locked, frame.argument(1), &task.waiter, frame.argument(2) != 0);
    scheduler::go_on(&mut locked, runner);
    0
}

/// Makes the task's system call, as far as the call goes without waiting.
fn attempt(frame: &Frame) -> isize {
    let task = task(frame);
    if task.is_resumed() && has_lost_its_file(task) {
        // The engine has no copy of the file's descriptor. So the rest of the call must not go to
        // another file.
        let done = task.done.get() as isize;
        task.end(false);
        if done > 0 {
            return done;
        }
    }
    task.begin();
    let Some(Class::Emulated(call)) = CLASSES.get(task.number.get() as usize) else {
        return NEEDS_THREAD;
    };
    let mut own = frame.with(task.number.get(), task.arguments.get());
    let thread = current();
    thread.task.set(Some(task));
    let result = call(&mut own);
    thread.task.set(None);
    task.end(result == SUSPENDED);
    if result != SUSPENDED && result != NEEDS_THREAD {
        closed::end_call(task);
    }
    if result == RESTART { EINTR } else { result }
}

/// Whether the descriptor that the task waited for has been closed meanwhile. The number may refer
/// to another file by now.
fn has_lost_its_file(task: TaskRef) -> bool {
    registry::get(task.waiter.waits_for.get())
        .is_some_and(|descriptor| task.waited_before(descriptor.generation()))
}

fn wait(frame: &Frame) -> isize {
    let task = task(frame);
    let (key, expected, deadline) =
        (frame.argument(1), frame.argument(2) as u32, frame.argument(3) as u64);
    // The task begins a new wait. The deadline and the end of the last wait do not apply.
    task.end(false);
    task.begin();
    let mut locked = lock();
    if key & 1 == 0 {
        match user::load_word(key) {
            Ok(word) if word == expected => {}
            Ok(_) => return EAGAIN,
            Err(fault) => return fault,
        }
    }
    buckets::insert(&mut locked, &task.waiter, key, futex::ANY);
    scheduler::suspend(&mut locked, task, deadline);
    SUSPENDED
}

fn interrupt(frame: &Frame) -> isize {
    let (task, restarts) = (task(frame), frame.argument(1) != 0);
    let mut locked = lock();
    let waits = task.waiter.state.get(locked.held()) == State::Parked;
    if !restarts || task.is_never_restarted(locked.held()) {
        wake(&mut locked, &task.waiter, Reason::Interrupted);
    }
    isize::from(waits)
}

/// Has the current thread, which has left its loop, run it again. Waits for the loop's runner.
fn come_back() -> isize {
    let mut locked = lock();
    if !loops::come_back(&mut locked) {
        park_through_signals(&mut locked, NEVER);
    }
    0
}

/// Sets the mask of threads that wait for tasks.
fn mask(mask: u64) -> isize {
    let mut locked = lock();
    loops::set_mask(&mut locked, mask);
    for spare in loops::spares(&mut locked) {
        mask_spare(&mut locked, spare);
    }
    0
}

/// Gives a thread that waits for a task the mask of such threads.
fn mask_spare(locked: &mut Locked, spare: ThreadRef) {
    let Some(mask) = loops::mask(locked) else { return };
    let _unchanged = user::write(spare.mask_word.get(), &mask);
    handling::set_mask(locked, spare, mask);
}

/// Handles a tick that finds the current thread at work. If the thread runs a loop, its task gives
/// way after its next call. If it has not by a later tick, the thread leaves the loop.
pub(crate) fn tell_turn_is_over() {
    let address = current().turn.get();
    if address == 0 {
        return;
    }
    let _unchanged = user::write(address, &1i32);
    let should_leave = loops::should_leave(&mut lock());
    stall::look();
    if should_leave && stall::is_in_program() && converted::leave() {
        let mut locked = lock();
        let runner = loops::leave(&mut locked);
        scheduler::go_on(&mut locked, runner);
    }
}
